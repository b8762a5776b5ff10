// The module for NCCL: the table with the functions of CUDA and NCCL.

#include <cstring>

#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <terrace/version.hpp>

#include "transport/nccl/module.hpp"

namespace terrace::detail {

namespace {

static_assert(sizeof(nccl_id) == sizeof(ncclUniqueId));
static_assert(gpu_runtime::in_progress == ncclInProgress);
static_assert(gpu_runtime::relaxed == cudaStreamCaptureModeRelaxed);

ncclDataType_t nccl_type_of(element_type type) {
    constexpr ncclDataType_t types[] = {
#define TERRACE_ELEMENT_TYPE(name, element, accumulator, mpi, nccl) nccl,
#include <terrace/element_types.def>
    };
    return types[static_cast<std::size_t>(type)];  // NCCL refuses ncclNumTypes
}

ncclRedOp_t op_of(reduce_op op) {
    constexpr ncclRedOp_t ops[] = {
#define TERRACE_REDUCE_OP(name, kinds, mpi, nccl) nccl,
#include <terrace/reduce_ops.def>
    };
    return ops[static_cast<std::size_t>(op)];
}

// Converts the result of a query. "Not ready" is no error.
int answer(cudaError_t code, bool* yes) {
    *yes = code == cudaSuccess;
    return code == cudaErrorNotReady ? cudaSuccess : code;
}

int cuda_versions(int* driver, int* runtime) {
    if (const cudaError_t code = cudaDriverGetVersion(driver); code != cudaSuccess) return code;
    return cudaRuntimeGetVersion(runtime);
}

int device_name(int device, char* name, std::size_t bytes) {
    cudaDeviceProp of;
    if (const cudaError_t code = cudaGetDeviceProperties(&of, device); code != cudaSuccess) return code;
    std::strncpy(name, of.name, bytes - 1);
    name[bytes - 1] = '\0';
    return 0;
}

int device_of(const void* memory, int* device) {
    cudaPointerAttributes of;
    if (const cudaError_t code = cudaPointerGetAttributes(&of, memory); code != cudaSuccess) return code;
    *device = of.type == cudaMemoryTypeDevice || of.type == cudaMemoryTypeManaged ? of.device : -1;
    return 0;
}

int stream_captured(gpu_stream stream, bool* captured) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t code = cudaStreamIsCapturing(stream, &status);
    *captured = status != cudaStreamCaptureStatusNone;
    return code;
}

int capture_mode(int* mode) {
    auto exchanged = static_cast<cudaStreamCaptureMode>(*mode);
    const cudaError_t code = cudaThreadExchangeStreamCaptureMode(&exchanged);
    *mode = exchanged;
    return code;
}

int seconds_between(double* seconds, gpu_event from, gpu_event to) {
    float milliseconds = 0;
    const cudaError_t code = cudaEventElapsedTime(&milliseconds, from, to);
    *seconds = milliseconds / 1e3;
    return code;
}

int end_capture(gpu_stream stream, gpu_graph* ready) {
    cudaGraph_t captured = nullptr;
    if (const cudaError_t code = cudaStreamEndCapture(stream, &captured); code != cudaSuccess) return code;
    const cudaError_t code = cudaGraphInstantiate(ready, captured, 0);
    cudaGraphDestroy(captured);
    return code;
}

// Finds a driver function at run time, so the module loads without libcuda.so.1. Driver and runtime have equal codes.
template <class Function>
int driver_function(const char* name, Function* found) {
    void* at = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
#if CUDART_VERSION >= 12050
    constexpr unsigned since = 12000;
    const cudaError_t code = cudaGetDriverEntryPointByVersion(name, &at, since, cudaEnableDefault, &result);
#else
    const cudaError_t code = cudaGetDriverEntryPoint(name, &at, cudaEnableDefault, &result);
#endif
    if (code != cudaSuccess) return code;
    if (result != cudaDriverEntryPointSuccess) return cudaErrorSymbolNotFound;
    *found = reinterpret_cast<Function>(at);
    return 0;
}

using value_function = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

int write_value(gpu_stream stream, std::uint32_t* where, std::uint32_t value) {
    static value_function call = nullptr;
    static const int found = driver_function("cuStreamWriteValue32", &call);
    if (found != 0) return found;
    return call(stream, reinterpret_cast<CUdeviceptr>(where), value, CU_STREAM_WRITE_VALUE_DEFAULT);
}

// Also flushes earlier writes of network adapters to the device, if the device supports this.
int wait_value(gpu_stream stream, std::uint32_t* where, std::uint32_t least) {
    static value_function call = nullptr;
    static const int found = driver_function("cuStreamWaitValue32", &call);
    if (found != 0) return found;
    int device = 0, flushes = 0;
    if (cudaGetDevice(&device) == cudaSuccess)
        cudaDeviceGetAttribute(&flushes, cudaDevAttrCanFlushRemoteWrites, device);
    unsigned flags = CU_STREAM_WAIT_VALUE_GEQ;
    if (flushes != 0) flags |= CU_STREAM_WAIT_VALUE_FLUSH;
    return call(stream, reinterpret_cast<CUdeviceptr>(where), least, flags);
}

int make_comm(nccl_comm* comm, int ranks, const nccl_id* id, int rank, bool blocking) {
    ncclUniqueId unique;
    std::memcpy(&unique, id, sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    return ncclCommInitRankConfig(comm, ranks, unique, rank, &config);
}

int split(nccl_comm comm, int color, int key, nccl_comm* part) {
    return ncclCommSplit(comm, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, part, nullptr);
}

int status(nccl_comm comm, int* code) {
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    *code = result;
    return asked;
}

}  // namespace

}  // namespace terrace::detail

using namespace terrace;

using namespace terrace::detail;

extern "C" __attribute__((visibility("default"))) const gpu_runtime terrace_gpu_runtime{
    .version = header_version,
    .bytes = sizeof(gpu_runtime),
    .cuda_error = [](int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); },
    .cuda_versions = cuda_versions,
    .device_count = [](int* count) -> int { return cudaGetDeviceCount(count); },
    .use_device = [](int device) -> int { return cudaSetDevice(device); },
    .device_name = device_name,
    .device_of = device_of,
    .allocate = [](void** memory, std::size_t bytes) -> int { return cudaMalloc(memory, bytes); },
    .release = [](void* memory) -> int { return cudaFree(memory); },
    .allocate_pinned = [](void** memory, std::size_t bytes) -> int { return cudaMallocHost(memory, bytes); },
    .release_pinned = [](void* memory) -> int { return cudaFreeHost(memory); },
    .make_stream = [](gpu_stream* s) -> int { return cudaStreamCreateWithFlags(s, cudaStreamNonBlocking); },
    .drop_stream = [](gpu_stream s) -> int { return cudaStreamDestroy(s); },
    .stream_done = [](gpu_stream s, bool* done) { return answer(cudaStreamQuery(s), done); },
    .stream_captured = stream_captured,
    .make_event = [](gpu_event* e) -> int { return cudaEventCreateWithFlags(e, cudaEventDisableTiming); },
    .drop_event = [](gpu_event e) -> int { return cudaEventDestroy(e); },
    .record = [](gpu_event e, gpu_stream s) -> int { return cudaEventRecord(e, s); },
    .wait = [](gpu_stream s, gpu_event e) -> int { return cudaStreamWaitEvent(s, e, 0); },
    .event_done = [](gpu_event e, bool* done) { return answer(cudaEventQuery(e), done); },
    .copy = [](void* to, const void* from, std::size_t bytes, gpu_stream s) -> int {
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s);
    },
    .write_value = write_value,
    .wait_value = wait_value,
    .capture_mode = capture_mode,
    .make_timer = [](gpu_event* e) -> int { return cudaEventCreate(e); },
    .seconds_between = seconds_between,
    .begin_capture = [](gpu_stream s) -> int { return cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal); },
    .end_capture = end_capture,
    .launch = [](gpu_graph g, gpu_stream s) -> int { return cudaGraphLaunch(g, s); },
    .drop_graph = [](gpu_graph g) -> int { return cudaGraphExecDestroy(g); },
    .nccl_error = [](int code) { return ncclGetErrorString(static_cast<ncclResult_t>(code)); },
    .nccl_version = [](int* number) -> int { return ncclGetVersion(number); },
    .make_id = [](nccl_id* id) -> int { return ncclGetUniqueId(reinterpret_cast<ncclUniqueId*>(id)); },
    .make_comm = make_comm,
    .split = split,
    .status = status,
    .finalize = [](nccl_comm c) -> int { return ncclCommFinalize(c); },
    .drop_comm = [](nccl_comm c) -> int { return ncclCommDestroy(c); },
    .abort = [](nccl_comm c) -> int { return ncclCommAbort(c); },
    .group_start = []() -> int { return ncclGroupStart(); },
    .group_end = []() -> int { return ncclGroupEnd(); },
    .send = [](const void* from, std::size_t bytes, int peer, nccl_comm c, gpu_stream s) -> int {
        return ncclSend(from, bytes, ncclInt8, peer, c, s);
    },
    .recv = [](void* to, std::size_t bytes, int peer, nccl_comm c, gpu_stream s) -> int {
        return ncclRecv(to, bytes, ncclInt8, peer, c, s);
    },
    .all_gather = [](const void* from, void* to, std::size_t bytes, nccl_comm c, gpu_stream s) -> int {
        return ncclAllGather(from, to, bytes, ncclInt8, c, s);
    },
    .broadcast = [](const void* from, void* to, std::size_t bytes, int root, nccl_comm c, gpu_stream s) -> int {
        return ncclBroadcast(from, to, bytes, ncclInt8, root, c, s);
    },
    .all_reduce = [](const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
                     gpu_stream s) -> int {
        return ncclAllReduce(from, to, count, nccl_type_of(type), op_of(op), c, s);
    },
    .reduce_scatter = [](const void* from, void* to, std::size_t count, element_type type, reduce_op op, nccl_comm c,
                         gpu_stream s) -> int {
        return ncclReduceScatter(from, to, count, nccl_type_of(type), op_of(op), c, s);
    },
    .reduce = [](const void* from, void* to, std::size_t count, element_type type, reduce_op op, int root, nccl_comm c,
                 gpu_stream s) -> int {
        return ncclReduce(from, to, count, nccl_type_of(type), op_of(op), root, c, s);
    },
    .combine = reduce_on_gpu,
};
