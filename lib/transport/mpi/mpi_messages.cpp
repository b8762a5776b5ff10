#include "transport/mpi/mpi_messages.hpp"

#include <utility>

#include "transport/mpi/ulfm.hpp"

namespace terrace::detail {

mpi_messages::mpi_messages(const network_traits& traits, std::shared_ptr<owned_comm> world, numbered_comm comm,
                           int slots, bool outlives_deaths)
    : messages(traits),
      world_(std::move(world)),
      comm_(std::move(comm)),
      control_tag_(traits.highest_tag + 1),
      outlives_deaths_(outlives_deaths) {
    const auto n = static_cast<std::size_t>(slots);
    requests_.reserve(n);
    posted_.reserve(n);
    indices_.resize(n);
    if (ulfm::is_there()) statuses_.resize(n);
    done_.reserve(n);
}

mpi_messages::~mpi_messages() {
    if (!requests_.empty() || fault()) abandon();
    if (!mpi_is_over()) forget_sent_control();
    if (!control_.empty()) new std::deque(std::move(control_));  // MPI may still read them: never freed
    if (coming_->request == MPI_REQUEST_NULL || mpi_is_over()) return;
    MPI_Cancel(&coming_->request);
    MPI_Request_free(&coming_->request);
    static_cast<void>(coming_.release());
}

// MPI_Cancel is local. A cancelled receive writes no more data, but a receive in progress may. Messages that arrive
// later must not match receives of a later communicator, so this one is never freed.
bool mpi_messages::abandon() noexcept {
    comm_.comm->abandon();
    world_->abandon();  // freeing it is collective
    bool all_done = true;
    for (std::size_t i = 0; i < requests_.size() && !mpi_is_over(); ++i) {
        if (requests_[i] == MPI_REQUEST_NULL) continue;  // this request has failed
        int done = 0;
        if (!posted_[i].sends) MPI_Cancel(&requests_[i]);
        MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
        if (!done) MPI_Request_free(&requests_[i]);
        all_done = all_done && done;
    }
    requests_.clear();
    posted_.clear();
    return all_done;
}

// Open MPI's btl/tcp damages its list of events if it sends a second message to a dead rank before it detects that the
// connection is closed. MPI_Iprobe for a message that has not arrived makes it check all connections.
void mpi_messages::send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept {
    int flag = 0;
    if (outlives_deaths_) MPI_Iprobe(comm_.number(peer), control_tag_, comm_.comm->get(), &flag, MPI_STATUS_IGNORE);
    post({slot, peer, true}, tag, "MPI_Isend", [&](MPI_Request* request) {
        return MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, comm_.number(peer), tag, comm_.comm->get(), request);
    });
}

void mpi_messages::recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept {
    post({slot, peer, false}, tag, "MPI_Irecv", [&](MPI_Request* request) {
        return MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, comm_.number(peer), tag, comm_.comm->get(), request);
    });
}

template <class Start>
void mpi_messages::post(posted what, int tag, const char* call, Start start) noexcept {
    if (fault()) return;
    if (tag >= control_tag_) return latch(call, MPI_ERR_TAG);
    MPI_Request request = MPI_REQUEST_NULL;
    if (const int code = start(&request); code != MPI_SUCCESS) return latch(call, code);
    requests_.push_back(request);
    posted_.push_back(what);
}

std::span<const int> mpi_messages::poll() noexcept {
    int count = 0;
    int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices_.data(),
                            statuses_.empty() ? MPI_STATUSES_IGNORE : statuses_.data());
    if (code == MPI_ERR_IN_STATUS && !statuses_.empty()) code = drop_those_of_deaths(count);
    if (code != MPI_SUCCESS) latch("MPI_Testsome", code);
    done_.clear();
    if (count != MPI_UNDEFINED && count > 0 && !fault())
        take_out(std::span(indices_).first(at(count)), requests_, posted_, [&](const posted& p) {
            if (p.slot >= 0) done_.push_back(p.slot);
        });
    return done_;
}

// Drops messages with ranks that have died, since these never complete. Returns the code of any other failure.
int mpi_messages::drop_those_of_deaths(int count) noexcept {
    for (int i = 0; i < count; ++i) {
        const int code = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
        if (code == MPI_SUCCESS) continue;
        if (!ulfm::is_of_a_death(code)) return code;
        posted_[static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)])].slot = -1;
    }
    return MPI_SUCCESS;
}

void mpi_messages::send_control(int peer, const control_message& m) noexcept {
    forget_sent_control();
    or_fail([&] {
        control& own = control_.emplace_back(control{m.words});
        const int code = MPI_Isend(own.words.data(), sizeof own.words, MPI_BYTE, comm_.number(peer), control_tag_,
                                   comm_.comm->get(), &own.request);
        if (code != MPI_SUCCESS) latch("MPI_Isend", code);
    });
}

// Open MPI 5 refuses MPI_Recv, but not MPI_Irecv, of a message whose sender has died after sending it.
std::optional<control_message> mpi_messages::take_control() noexcept {
    forget_sent_control();
    int there = 0, done = 0;
    MPI_Status status;
    if (coming_->request == MPI_REQUEST_NULL) {
        int code = MPI_Iprobe(MPI_ANY_SOURCE, control_tag_, comm_.comm->get(), &there, &status);
        if (code != MPI_SUCCESS) latch("MPI_Iprobe", code);
        if (code != MPI_SUCCESS || !there) return {};
        coming_->from = status.MPI_SOURCE;
        code = MPI_Irecv(coming_->words.data(), sizeof coming_->words, MPI_BYTE, coming_->from, control_tag_,
                         comm_.comm->get(), &coming_->request);
        if (code != MPI_SUCCESS) latch("MPI_Irecv", code);
        if (code != MPI_SUCCESS) return {};
    }
    const int code = MPI_Test(&coming_->request, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) coming_->request = MPI_REQUEST_NULL;
    if (code != MPI_SUCCESS) latch("MPI_Test", code);
    if (code != MPI_SUCCESS || !done) return {};
    return control_message{comm_.rank(coming_->from), coming_->words};
}

// Drops control messages that have been sent. They are below every eager limit, so they usually leave at once.
void mpi_messages::forget_sent_control() noexcept {
    for (int sent = 1; !control_.empty(); control_.pop_front()) {
        const int code = MPI_Test(&control_.front().request, &sent, MPI_STATUS_IGNORE);
        if (!sent && code == MPI_SUCCESS) return;
    }
}

// Latches no failure for dead ranks: failure_watch detects these.
void mpi_messages::latch(const char* call, int code) noexcept {
    if (ulfm::is_of_a_death(code)) return ulfm::acknowledge_deaths(comm_.comm->get());
    if (!fault()) or_fail([&] { fail({"mpi", call, code, error_text(code)}); });
}

}  // namespace terrace::detail
