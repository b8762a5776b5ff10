#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>

#include "transport/messages.hpp"
#include "transport/mpi/owned.hpp"

namespace terrace::detail {

/// Messages over an MPI communicator of their own.
class mpi_messages final : public messages {
public:
    /// @param comm used only here. The destructor frees it, and `world` with its last owner, unless abandoned
    /// @param outlives_deaths true if ranks may continue after others have died
    mpi_messages(const network_traits& traits, std::shared_ptr<owned_comm> world, numbered_comm comm, int slots,
                 bool outlives_deaths = false);
    ~mpi_messages() override;

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override;
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override;
    std::span<const int> poll() noexcept override;
    void send_control(int peer, const control_message& m) noexcept override;
    std::optional<control_message> take_control() noexcept override;
    bool abandon() noexcept override;
    // MPI progresses only when it is called.
    void look() noexcept override {
        int flag = 0;
        if (requests_.empty()) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.comm->get(), &flag, MPI_STATUS_IGNORE);
    }
    bool settled() noexcept override {
        forget_sent_control();
        return control_.empty();
    }

private:
    struct posted {
        int slot, peer;
        bool sends;
    };
    struct control {
        std::array<std::uint64_t, 5> words{};
        MPI_Request request = MPI_REQUEST_NULL;
        int from = 0;  // source of a message that is being received
    };

    template <class Start>
    void post(posted what, int tag, const char* call, Start start) noexcept;
    void forget_sent_control() noexcept;
    int drop_those_of_deaths(int count) noexcept;
    void latch(const char* call, int code) noexcept;

    const std::shared_ptr<owned_comm> world_;
    const numbered_comm comm_;
    const int control_tag_;  // the highest tag; other messages use lower ones
    const bool outlives_deaths_;
    std::vector<MPI_Request> requests_;  // active ones, without gaps
    std::vector<posted> posted_;         // message of each request
    std::vector<int> indices_;           // indices of completed requests
    std::vector<MPI_Status> statuses_;   // their statuses; empty if these are not used
    std::vector<int> done_;              // completed slots
    std::deque<control> control_;        // control messages being sent
    std::unique_ptr<control> coming_ = std::make_unique<control>();
};

}  // namespace terrace::detail
