#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace terrace::detail {

// Kinds of messages of each service, by number. docs/explanation/control-messages.md describes them.

enum class message_kind : std::uint8_t { inlined, eager, rendezvous, grant, refusal, credit };
enum class order_kind : std::uint8_t { round, stamp, stamp_read, difference };
enum class wait_kind : std::uint8_t { question, reply, last_reply };
enum class membership_kind : std::uint8_t { come, knows, step, decided };
enum class link_kind : std::uint8_t { begin, question, answer, sent, received, end };
enum class plan_kind : std::uint8_t { offer, piece, ready, first_call };

/// A protocol of control messages.
struct service_row {
    std::string_view name;
    std::size_t kinds = 0;  ///< number of kinds; kinds are numbered from 0
};

constexpr std::size_t kinds_up_to(auto last) noexcept { return static_cast<std::size_t>(last) + 1; }

/// The services of a communicator: the rows of the table below.
enum class service : std::uint8_t { messages, call_order, wait_report, membership, link_report, plan_change };

inline constexpr std::array<service_row, 6> control_services{{
    {"messages", kinds_up_to(message_kind::credit)},        // point_to_point
    {"call_order", kinds_up_to(order_kind::difference)},    // call_check
    {"wait_report", kinds_up_to(wait_kind::last_reply)},    // wait_chain
    {"membership", kinds_up_to(membership_kind::decided)},  // failure_agreement
    {"link_report", kinds_up_to(link_kind::end)},           // link_reports
    {"plan_change", kinds_up_to(plan_kind::first_call)},    // plan_changes
}};

}  // namespace terrace::detail
