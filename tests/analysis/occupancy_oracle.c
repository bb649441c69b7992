/* NVIDIA's own calculator (cuda_occupancy.h) over a grid: reads "major minor warps blocks_ignored shared_sm
 * shared_optin reserved threads registers shared carveout_percent barriers" lines, prints the blocks. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "cuda_occupancy.h"

int main(void) {
    int major, minor, warps, threads, registers, barriers, carveout;
    long shared_sm, shared_optin, reserved, shared;
    while (scanf("%d %d %d %ld %ld %ld %d %d %ld %d %d", &major, &minor, &warps, &shared_sm, &shared_optin,
                 &reserved, &threads, &registers, &shared, &carveout, &barriers) == 11) {
        cudaOccDeviceProp device;
        cudaOccFuncAttributes kernel;
        cudaOccDeviceState state;
        cudaOccResult result;
        memset(&device, 0, sizeof device);
        memset(&kernel, 0, sizeof kernel);
        memset(&state, 0, sizeof state);
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = warps * 32;
        device.regsPerBlock = device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 49152;
        device.sharedMemPerMultiprocessor = shared_sm;
        device.sharedMemPerBlockOptin = shared_optin;
        device.reservedSharedMemPerBlock = reserved;
        device.numSms = 1;
        kernel.maxThreadsPerBlock = 1024;
        kernel.numRegs = registers;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = shared_optin;
        kernel.numBlockBarriers = barriers;
        state.carveoutConfig = carveout;
        cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads,
                                                                     shared);
        printf("%d %d\n", (int)error, error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
    }
    return 0;
}
