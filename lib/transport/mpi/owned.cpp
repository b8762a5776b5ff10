#include "transport/mpi/owned.hpp"

#include <dlfcn.h>

#include <chrono>
#include <mutex>
#include <thread>

#include <terrace/error.hpp>

namespace terrace::detail {

std::string error_text(int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown error";
    return {text, static_cast<std::size_t>(length)};
}

void check(int code, const char* call) {
    if (code != MPI_SUCCESS) throw transport_error("mpi", call, code, error_text(code));
}

bool mpi_is_over() noexcept {
    int finalized = 0;
    MPI_Finalized(&finalized);
    return finalized != 0;
}

namespace {

constexpr std::chrono::milliseconds patience(1000), pause(1);

// Runs in MPI_Finalize, which frees the attributes of MPI_COMM_SELF first.
int wait_for_slower(MPI_Comm, int, void*, void*) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (int flag = 0; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(pause))
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);  // progresses messages
    return MPI_SUCCESS;
}

}  // namespace

// Writes the variable of the parameter async_mpi_finalize, which MPI_Finalize reads. There is no public way, since
// MPI_T never allows it to be set. Open MPI 4.1.4 and 5.0.11 have the variable; without it nothing is done.
void finalize_without_others() noexcept {
    static std::once_flag once;
    std::call_once(once, [] {
        auto* const parameter = static_cast<bool*>(::dlsym(RTLD_DEFAULT, "ompi_async_mpi_finalize"));
        int key = MPI_KEYVAL_INVALID;
        if (parameter == nullptr ||
            MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_for_slower, &key, nullptr) != MPI_SUCCESS ||
            MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) != MPI_SUCCESS)
            return;
        *parameter = true;
    });
}

MPI_Comm part_of(const owned_comm& comm, const owned_comm& world, const std::vector<int>& members) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    check(MPI_Comm_group(world.get(), &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some), "MPI_Group_incl");
    const int code = MPI_Comm_create_group(comm.get(), some, 0, &made);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    check(code, "MPI_Comm_create_group");
    return made;
}

}  // namespace terrace::detail
