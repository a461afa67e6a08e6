"""The pictures of the report, drawn by matplotlib as inline SVG; matplotlib is imported when the first is drawn."""
