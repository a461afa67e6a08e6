// What CUDA adds to C++, for one CPU thread; included before a unit.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __popcll __builtin_popcountll
#define __clzll __builtin_clzll
#define __ffsll __builtin_ffsll
#define __fdiv_rn(x, y) ((x) / (y))
#define __fdividef(x, y) ((x) / (y))
#define __fsqrt_rn sqrtf
// Off by what the CUDA programming guide says of the intrinsics on [-pi, pi], and by more beyond.
#define __sinf(x) (sinf(x) + 0x1p-22f)
#define __cosf(x) (cosf(x) + 0x1p-22f)
#define __tanf tanf
#define __expf expf
#define __exp10f exp10f
#define __powf powf
// The guide allows powf 4 ulp.
#define powf(x, y) (powf(x, y) * (1 + 0x1p-22f))
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

struct {
    unsigned x, y, z;
} static gridDim, blockDim, blockIdx, threadIdx;

static sigjmp_buf fault;
static void jump_out(int) { siglongjmp(fault, 1); }

typedef void (*Kernel)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

// Every argument goes in a register or a stack slot of 8 bytes, whatever its type. Returns whether a thread faulted.
extern "C" int cupy_on_cpu_launch(Kernel kernel, const unsigned* sizes, const uint64_t* a) {
    gridDim = {sizes[0], sizes[1], sizes[2]};
    blockDim = {sizes[3], sizes[4], sizes[5]};
    struct sigaction mine = {}, before;
    mine.sa_handler = jump_out;
    sigaction(SIGSEGV, &mine, &before);
    const int faulted = sigsetjmp(fault, 1);
    if (!faulted) {
        for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z)
            for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
                for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
                    for (threadIdx.z = 0; threadIdx.z < blockDim.z; ++threadIdx.z)
                        for (threadIdx.y = 0; threadIdx.y < blockDim.y; ++threadIdx.y)
                            for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
                                kernel(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
                                       a[13], a[14], a[15]);
    }
    sigaction(SIGSEGV, &before, nullptr);
    return faulted;
}
