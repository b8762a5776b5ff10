// Communicators that programs create and free.

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "drop_in/ranks.hpp"
#include "support/effort.hpp"

namespace drop_in {

namespace {

int entries_of(const char* directory, const std::string& beginning = "") {
    const std::filesystem::directory_iterator all(directory);
    return static_cast<int>(std::count_if(begin(all), end(all), [&](const std::filesystem::directory_entry& e) {
        return e.path().filename().string().starts_with(beginning);
    }));
}

int mapped_regions() {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.find("/dev/shm/#") != line.npos;
    return count;
}

void use(MPI_Comm comm) {
    std::vector<int> data(1000, 1);
    MPI_Allreduce(MPI_IN_PLACE, data.data(), 1000, MPI_INT, MPI_SUM, comm);
    EXPECT_EQ(std::count(data.begin(), data.end(), size_of(comm)), 1000);
}

}  // namespace

TEST(communicators, of_some_ranks) {
    const int rank = rank_in();
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    use(part);
    int first = rank_in(part) == 0 ? rank : -1;
    MPI_Bcast(&first, 1, MPI_INT, 0, part);
    EXPECT_EQ(first % 2, rank % 2);
    MPI_Comm_free(&part);
    EXPECT_EQ(part, MPI_COMM_NULL);
}

// Attributes that the program sets are copied and deleted as without the drop-in.
TEST(communicators, keep_their_attributes) {
    static int copies = 0, deletions = 0;
    int key = MPI_KEYVAL_INVALID, found = 0;
    MPI_Comm_create_keyval(
        [](MPI_Comm, int, void*, void* from, void* to, int* copied) -> int {
            ++copies;
            *static_cast<void**>(to) = from;
            *copied = 1;
            return MPI_SUCCESS;
        },
        [](MPI_Comm, int, void*, void*) -> int { return ++deletions, MPI_SUCCESS; }, &key, nullptr);
    MPI_Comm one = MPI_COMM_NULL, two = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_set_attr(one, key, &found);
    use(one);
    MPI_Comm_dup(one, &two);
    EXPECT_EQ(copies, 1);
    use(two);
    void* value = nullptr;
    MPI_Comm_get_attr(two, key, &value, &found);
    EXPECT_TRUE(found != 0 && value == &found);
    MPI_Comm_free(&one);
    MPI_Comm_free(&two);
    EXPECT_EQ(deletions, 2);
    MPI_Comm_free_keyval(&key);
}

TEST(communicators, many_leave_nothing) {
    const int settling = 20, all = terrace::detail::test::share("communicators that are made and freed", 1000, 400);
    const auto cycle = [] {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        use(comm);
        MPI_Comm_free(&comm);
    };
    for (int i = 0; i < settling; ++i) cycle();
    MPI_Barrier(MPI_COMM_WORLD);
    const int files = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task"), regions = mapped_regions();
    const std::size_t memory = mallinfo2().uordblks;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = settling; i < all; ++i) cycle();
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(entries_of("/dev/shm", "terrace"), 0);
    EXPECT_LE(mapped_regions(), regions);
    EXPECT_LE(entries_of("/proc/self/fd"), files);
    EXPECT_LE(entries_of("/proc/self/task"), threads);
    EXPECT_LE(mallinfo2().uordblks, memory + 300'000)
        << "three hundred bytes of each of a thousand, of which MPICH 5 takes two once";
}

}  // namespace drop_in
