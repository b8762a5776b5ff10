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
    /// @param comm one that nobody else uses, which this frees, as it does the last of `world`, unless abandoned
    /// @param outlives_deaths whether ranks may go on where others have died
    mpi_messages(const network_traits& traits, std::shared_ptr<owned_comm> world, numbered_comm comm, int slots,
                 bool outlives_deaths = false);
    ~mpi_messages() override;

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override;
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override;
    std::span<const int> poll() noexcept override;
    void send_control(int peer, const control_message& m) noexcept override;
    std::optional<control_message> take_control() noexcept override;
    bool abandon() noexcept override;
    // MPI moves on when it is called.
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
        int from = 0;  // of one that is coming
    };

    template <class Start>
    void post(posted what, int tag, const char* call, Start start) noexcept;
    void forget_sent_control() noexcept;
    int drop_those_of_deaths(int count) noexcept;
    void latch(const char* call, int code) noexcept;

    const std::shared_ptr<owned_comm> world_;
    const numbered_comm comm_;
    const int control_tag_;  // the highest there is; messages stay below
    const bool outlives_deaths_;
    std::vector<MPI_Request> requests_;  // active ones, packed
    std::vector<posted> posted_;         // beside them
    std::vector<int> indices_;           // what MPI says of them
    std::vector<MPI_Status> statuses_;   // the same; empty where nothing is to be learnt of them
    std::vector<int> done_;              // slots
    std::deque<control> control_;        // on their way
    std::unique_ptr<control> coming_ = std::make_unique<control>();
};

}  // namespace terrace::detail
