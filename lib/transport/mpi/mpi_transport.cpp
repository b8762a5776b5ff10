#include "transport/mpi/mpi_transport.hpp"

#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#    include <mpi-ext.h>
#endif

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <vector>

#include <terrace/error.hpp>

#include "base/hash.hpp"
#include "base/wire.hpp"
#include "transport/mpi/library_stages.hpp"
#include "transport/mpi/send_queue.hpp"
#include "transport/shm/posix_region.hpp"

namespace terrace {

namespace {

// A simulated MPI (bench/smpi): its time moves on where ranks sleep in it, and not while they poll.
#ifdef TERRACE_MPI_SLEEPS
constexpr bool sleeps = true;
#else
constexpr bool sleeps = false;
#endif

MPI_Comm split_of(MPI_Comm comm, int color, int key) {
    MPI_Comm made = MPI_COMM_NULL;
    check(MPI_Comm_split(comm, color, key, &made), "MPI_Comm_split");
    return made;
}

void gather(const owned_comm& comm, const void* mine, void* all, std::size_t bytes) {
    const int n = static_cast<int>(bytes);
    check(MPI_Allgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, comm.get()), "MPI_Allgather");
}

// Every rank's lowest fellow on its machine node, by rank of `world`.
std::vector<int> node_leaders(const owned_comm& world) {
    MPI_Comm raw = MPI_COMM_NULL;
    check(MPI_Comm_split_type(world.get(), MPI_COMM_TYPE_SHARED, world.rank(), MPI_INFO_NULL, &raw),
          "MPI_Comm_split_type");
    const owned_comm node(raw);
    int leader = world.rank();
    check(MPI_Bcast(&leader, 1, MPI_INT, 0, node.get()), "MPI_Bcast");
    std::vector<int> leaders(static_cast<std::size_t>(world.size()));
    gather(world, &leader, leaders.data(), sizeof(int));
    return leaders;
}

class mpi_transport final : public transport {
public:
    explicit mpi_transport(MPI_Comm comm) : comm_(comm), rank_(comm_.rank()), size_(comm_.size()) {
        int* bound = nullptr;
        int found = 0;
        check(MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
        note_tag_ = found ? *bound : 32767;
    }

    ~mpi_transport() override {
        if (!requests_.empty() || fault_) abandon();
        if (!mpi_is_over()) forget_sent_notes();
        if (!notes_.empty()) new std::deque(std::move(notes_));  // MPI may still read them: never freed
    }

    // After a failure messages may be in flight. Cancelling is local, and a cancelled receive writes no more; one that
    // is half through may. What still arrives, or has and is of no use to anybody, must not meet a later communicator.
    // A collective can neither be cancelled nor forgotten.
    bool abandon() noexcept override {
        comm_.abandon();
        if (library_) library_->abandon();
        bool all_done = true;
        for (std::size_t i = 0; i < requests_.size() && !mpi_is_over(); ++i) {
            if (requests_[i] == MPI_REQUEST_NULL) continue;  // this one has failed
            int done = 0;
            if (slot_of_[i].is == kind::recv) MPI_Cancel(&requests_[i]);
            MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
            if (!done && slot_of_[i].is != kind::stage) MPI_Request_free(&requests_[i]);
            all_done = all_done && done;
        }
        requests_.clear();
        slot_of_.clear();
        if (!all_done) static_cast<void>(library_.release());  // MPI goes on using what is in there: never freed
        return all_done;
    }

    int rank() const noexcept override { return rank_; }
    int size() const noexcept override { return size_; }
    std::string_view name() const noexcept override { return "mpi"; }
    // A simulated network has no eager limit, and every piece takes a simulator's time.
    std::size_t segment() const noexcept override { return sleeps ? 1 << 20 : wire_segment; }

    bool takes_device_memory() const noexcept override { return mpi_takes_device_memory(); }

    void reserve(int slots) override {
        const auto n = static_cast<std::size_t>(slots);
        if (n <= completed_.size()) return;
        requests_.reserve(n);
        slot_of_.reserve(n);
        completed_.resize(n);
        done_.reserve(n);
        reported_.reserve(n);
    }

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        const send_queue::message m{slot, peer, tag, from, bytes};
        if (!sleeps || waiting_.may_leave(m)) start(m);
    }

    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override {
        post({slot, kind::recv, peer}, tag, "MPI_Irecv", [&](MPI_Request* request) {
            return MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_.get(), request);
        });
    }

    void prepare_library(std::span<const std::vector<int>> groups, int slots) override {
        library_ = std::make_unique<library_stages>(comm_, groups, slots);
        can_.slots = slots;
        for (const action a :
             {action::stage_reduce_scatter, action::stage_allgather, action::stage_reduce, action::stage_broadcast})
            can_.library |= 1u << static_cast<unsigned>(a);
        can_.library_groups = std::make_shared<const std::set<std::vector<int>>>(groups.begin(), groups.end());
    }
    const capabilities& can() const noexcept override { return can_; }
    void stage(int slot, const stage_call& call) noexcept override {
        if (fault_) return;
        const library_stages::started made = library_->start(call);
        if (made.code != MPI_SUCCESS) return latch(made.call, made.code);
        requests_.push_back(made.request);
        slot_of_.push_back({slot, kind::stage, -1, call.lane_slot});
    }
    std::vector<int> missing(int slot) const override {
        for (const posted& p : slot_of_)
            if (p.slot == slot && p.is == kind::stage) return library_->peers(p.lane_slot);
        return {};
    }

    std::span<const int> poll() noexcept override {
        if (!sleeps) complete(MPI_Testsome, "MPI_Testsome");
        reported_.swap(done_);
        done_.clear();
        return reported_;
    }
    void idle() noexcept override {
        if (!sleeps) return transport::idle();
        complete(wait_for_one, "MPI_Waitany");
        while (const auto next = waiting_.next()) start(*next);
    }
    int patience() const noexcept override { return sleeps ? 0 : transport::patience(); }

    std::size_t in_flight() const noexcept override { return requests_.size(); }
    const std::optional<transport_fault>& fault() const noexcept override { return fault_; }

    // MPI moves on when it is called.
    void look() noexcept override {
        int flag = 0;
        if (requests_.empty()) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.get(), &flag, MPI_STATUS_IGNORE);
    }

    void send_note(int peer, const note& n) noexcept override {
        forget_sent_notes();
        sent_note& own = notes_.emplace_back(sent_note{n.words, MPI_REQUEST_NULL});
        const int code =
            MPI_Isend(own.words.data(), sizeof own.words, MPI_BYTE, peer, note_tag_, comm_.get(), &own.request);
        if (code != MPI_SUCCESS) latch("MPI_Isend", code);
    }

    std::optional<note> take_note() noexcept override {
        forget_sent_notes();
        int there = 0;
        MPI_Status status;
        int code = MPI_Iprobe(MPI_ANY_SOURCE, note_tag_, comm_.get(), &there, &status);
        if (code != MPI_SUCCESS) latch("MPI_Iprobe", code);
        if (code != MPI_SUCCESS || !there) return {};
        note n{status.MPI_SOURCE, {}};
        code = MPI_Recv(n.words.data(), sizeof n.words, MPI_BYTE, n.from, note_tag_, comm_.get(), MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) latch("MPI_Recv", code);
        return n;
    }

    void gather_all(const void* mine, void* all, std::size_t bytes) override { gather(comm_, mine, all, bytes); }
    std::unique_ptr<transport> split(int color, int key) override {
        const MPI_Comm made = split_of(comm_.get(), color < 0 ? MPI_UNDEFINED : color, key);
        return made == MPI_COMM_NULL ? nullptr : std::make_unique<mpi_transport>(made);
    }
    std::vector<int> nodes() override { return node_leaders(comm_); }
    std::optional<shared_region> share(std::span<const int> ranks, std::size_t bytes) override {
        return map_posix_region(rank_, size_, ranks, bytes,
                                [this](const void* mine, void* all, std::size_t n) { gather_all(mine, all, n); });
    }

private:
    enum class kind { send, recv, stage };

    struct posted {
        int slot;
        kind is;
        int peer;
        int lane_slot = 0;  // of a stage
    };

    struct sent_note {
        std::array<std::uint64_t, 5> words;
        MPI_Request request;
    };

    // Notes are far below every eager limit: they leave at once, as a rule.
    void forget_sent_notes() noexcept {
        for (int sent = 1; !notes_.empty(); notes_.pop_front()) {
            MPI_Test(&notes_.front().request, &sent, MPI_STATUS_IGNORE);
            if (!sent) return;
        }
    }

    void start(const send_queue::message& m) noexcept {
        post({m.slot, kind::send, m.peer}, m.tag, "MPI_Isend", [&](MPI_Request* request) {
            return MPI_Isend(m.from, static_cast<int>(m.bytes), MPI_BYTE, m.peer, m.tag, comm_.get(), request);
        });
    }

    template <class Start>
    void post(posted what, int tag, const char* call, Start start) noexcept {
        if (fault_) return;
        if (tag >= note_tag_) return latch(call, MPI_ERR_TAG);
        MPI_Request request = MPI_REQUEST_NULL;
        if (const int code = start(&request); code != MPI_SUCCESS) return latch(call, code);
        requests_.push_back(request);
        slot_of_.push_back(what);
    }

    // In place of MPI_Waitsome. SMPI's asks about each request by itself, and whatever it finds that way stays in a
    // list of the rank that it searches ever after: a run takes time by the square of its messages.
    static int wait_for_one(int n, MPI_Request* requests, int* count, int* completed, MPI_Status*) noexcept {
        const int code = MPI_Waitany(n, requests, completed, MPI_STATUS_IGNORE);
        *count = *completed == MPI_UNDEFINED ? MPI_UNDEFINED : 1;
        return code;
    }

    // To done_. The active requests stay packed: the last one moves into each gap, from the highest gap down.
    template <class Some>
    void complete(Some some, const char* call) noexcept {
        int count = 0;
        const int code =
            some(static_cast<int>(requests_.size()), requests_.data(), &count, completed_.data(), MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS) latch(call, code);
        if (count == MPI_UNDEFINED || count == 0 || fault_) return;
        std::sort(completed_.begin(), completed_.begin() + count, std::greater<>());
        for (int i = 0; i < count; ++i) {
            const auto gap = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
            done_.push_back(slot_of_[gap].slot);
            if (slot_of_[gap].is == kind::stage) library_->finish(slot_of_[gap].lane_slot);
            if (sleeps && slot_of_[gap].is == kind::send) waiting_.left(slot_of_[gap].peer);
            requests_[gap] = requests_.back();
            slot_of_[gap] = slot_of_.back();
            requests_.pop_back();
            slot_of_.pop_back();
        }
    }

    void latch(const char* call, int code) noexcept {
        if (!fault_) fault_ = transport_fault{"mpi", call, code, error_text(code)};
    }

    owned_comm comm_;
    int rank_, size_;
    int note_tag_ = 0;                   // the highest there is; messages stay below
    std::vector<MPI_Request> requests_;  // active ones, packed
    std::vector<posted> slot_of_;        // beside them
    std::vector<int> completed_;         // what MPI says of them
    std::vector<int> done_, reported_;   // slots
    send_queue waiting_;                 // to be sent, under a simulated MPI
    std::unique_ptr<library_stages> library_;
    capabilities can_;
    std::deque<sent_note> notes_;  // on their way
    std::optional<transport_fault> fault_;
};

}  // namespace

namespace {

// The largest hash and the smallest tell whether there are two; nobody gathers what all have.
bool all_have(const identity& mine, MPI_Comm comm) {
    const std::uint64_t own = hash_of(mine.data(), mine.size());
    std::array<std::uint64_t, 2> most{own, ~own};
    check(MPI_Allreduce(MPI_IN_PLACE, most.data(), 2, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce");
    return most[0] == ~most[1];
}

}  // namespace

std::unique_ptr<transport> make_mpi_transport(MPI_Comm world, const identity& mine) {
    const MPI_Comm comm = split_of(world, 0, mpi_rank(world));
    auto net = std::make_unique<mpi_transport>(comm);
    if (all_have(mine, comm)) return net;
    std::vector<identity> all(static_cast<std::size_t>(net->size()));
    net->gather_all(mine.data(), all.data(), sizeof(identity));
    require_agreement(all);
    return net;
}

bool mpi_takes_device_memory() noexcept {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
    int is = 0;
    return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is) == MPI_SUCCESS && is != 0;
#else
    return false;
#endif
}

int mpi_rank(MPI_Comm world) {
    int rank = 0;
    check(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
    return rank;
}

}  // namespace terrace
