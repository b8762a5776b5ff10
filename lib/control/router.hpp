#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "control/services.hpp"
#include "executor/endpoint.hpp"

namespace terrace::detail {

/// Round of the service that a control message belongs to, and its number in the round. The page on control messages
/// describes both numbers for each kind.
struct control_place {
    std::uint16_t epoch = 0;  ///< wraps around
    std::uint32_t number = 0;
};

/// A control message of 40 bytes: a header of 8 bytes, and a body. Unused bytes of the body are 0. All ranks have the
/// same byte order.
struct control_frame {
    std::uint8_t service = 0;  ///< row of the table of services
    std::uint8_t kind = 0;     ///< kind within the service
    std::uint16_t epoch = 0;
    std::uint32_t number = 0;
    std::array<std::uint64_t, 4> body{};

    static control_frame from(const control_message& m) noexcept { return std::bit_cast<control_frame>(m.words); }
    control_message message() const noexcept { return {0, std::bit_cast<decltype(control_message::words)>(*this)}; }

    template <class Body>
    void put(const Body& b) noexcept {
        static_assert(std::has_unique_object_representations_v<Body> && sizeof b <= sizeof body);
        std::memcpy(body.data(), &b, sizeof b);
    }
    template <class Body>
    Body get() const noexcept {
        static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= sizeof body);
        Body b{};
        std::memcpy(static_cast<void*>(&b), body.data(), sizeof b);
        return b;
    }
};

class control_service;

/// Passes received control messages to the services of a communicator. control_service::send_control sends them.
class control_router {
public:
    /// @param net must outlive this   @param table the services that ranks know, the same on all ranks
    explicit control_router(endpoint& net, std::span<const service_row> table = control_services)
        : net_(net), table_(table), services_(table.size()) {}

    endpoint& net() noexcept { return net_; }
    /// Passes the messages that have arrived to their services. An unknown message fails the endpoint.
    void receive() {
        messages& wire = net_.wire();
        while (const std::optional<control_message> m = wire.take_control()) wire.or_fail([&] { dispatch(*m); });
    }

private:
    friend control_service;

    void dispatch(const control_message& m);

    endpoint& net_;
    std::span<const service_row> table_;
    std::vector<control_service*> services_;  // by row; null: not run here, and its messages fail the endpoint
};

/// Base class of services. A service is one rank's end of a protocol.
class control_service {
protected:
    /// @param router must outlive this   @param row row of the service in the router's table
    control_service(control_router& router, std::uint8_t row) : net_(router.net()), row_(row) {
        router.services_.at(row) = this;
    }
    control_service(control_router& router, service row) : control_service(router, static_cast<std::uint8_t>(row)) {}
    control_service(const control_service&) = delete;
    ~control_service() = default;

    template <class Kind, class Body = std::uint64_t>
    void send_control(int peer, Kind what, const control_place& where = {}, const Body& body = {}) noexcept {
        control_frame f{row_, static_cast<std::uint8_t>(what), where.epoch, where.number};
        f.put(body);
        net_.wire().send_control(peer, f.message());
    }

    endpoint& net_;

private:
    friend control_router;

    /// Receives a message, whose kind is one of those in its row. May throw std::bad_alloc, which breaks the
    /// communicator. Any other exception ends the process.
    virtual void receive(int from, const control_frame& f) = 0;

    const std::uint8_t row_;
};

}  // namespace terrace::detail
