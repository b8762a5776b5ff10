// On one node, over MPI, Terrace opens no listening socket: the process has the same ones before and after. Run under
// mpirun.

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/socket.h>
#include <unistd.h>

#include <terrace/loopback.hpp>
#include <terrace/mpi.hpp>

#include "support/plans.hpp"
#include "support/shapes.hpp"

namespace terrace::detail::test {

namespace {

// Returns "socket:[INODE]" of every listening TCP socket of the machine, as `ss -ltn` shows them.
std::set<std::string> listening_on_this_machine() {
    std::set<std::string> found;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream in(table);
        std::string line;
        std::getline(in, line);
        while (std::getline(in, line)) {
            std::istringstream words(line);
            std::string word, state, inode;
            for (int n = 0; n < 10 && words >> word; ++n) {
                if (n == 3) state = word;
                if (n == 9) inode = word;
            }
            if (state == "0A") found.insert("socket:[" + inode + "]");
        }
    }
    return found;
}

std::set<std::string> listeners() {
    const std::set<std::string> all = listening_on_this_machine();
    std::set<std::string> own;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;  // for the directory's own descriptor
        const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
        if (all.contains(target)) own.insert(target);
    }
    return own;
}

plan flat_plan(int ranks) {
    return plan_of(machine_of(tree::uniform(std::vector{ranks})),
                   {{{0}, ranks, mode::scatter, "", provider::shared_memory}}, 2, 16384);
}

}  // namespace

TEST(listeners, are_seen) {
    const std::set<std::string> before = listeners();
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GE(socket, 0);
    ASSERT_EQ(::listen(socket, 1), 0);
    EXPECT_EQ(listeners().size(), before.size() + 1);
    ::close(socket);
    EXPECT_EQ(listeners(), before);
}

TEST(listeners, none_are_opened) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    options anywhere;
    anywhere.place = options::placement::anywhere;
    const std::set<std::string> before = listeners();
    for (const bool shared_memory : {false, true}) {
        anywhere.shared_memory = shared_memory;
        communicator comm = mpi::create(MPI_COMM_WORLD, flat_plan(ranks), anywhere);
        for (const std::int64_t count : {5, 100'003}) {
            EXPECT_EQ(make(comm, {.count = count, .counts = {}}, 1).wrong, 0);
            EXPECT_EQ(make(comm, {.what = collective::allgather, .count = count, .counts = {}}, 1).wrong, 0);
        }
        EXPECT_EQ(listeners(), before);
    }
    loopback::run(flat_plan(4),
                  [](communicator& comm) { EXPECT_EQ(make(comm, {.count = 1000, .counts = {}}, 1).wrong, 0); });
    EXPECT_EQ(listeners(), before);
}

}  // namespace terrace::detail::test
