#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/fake_network.hpp"

namespace terrace::detail::test {

/// Any number of ranks in one thread, with only control messages. It must outlive all connections to it.
class control_world {
public:
    struct mailbox {
        std::map<int, std::deque<control_message>> arrived;  ///< by sender
        std::size_t may_take = std::numeric_limits<std::size_t>::max();
        // Receivers and number of the rank's own messages.
        std::set<int> peers;
        std::size_t sent = 0;
    };

    explicit control_world(int size) : boxes_(static_cast<std::size_t>(size)) {}

    mailbox& of(int rank) { return boxes_[static_cast<std::size_t>(rank)]; }
    connection join(int rank) {
        return {std::make_shared<only_network>(*this), nullptr,
                team(std::make_shared<no_bootstrap>("node"), rank, static_cast<int>(boxes_.size()))};
    }
    /// Lets a rank die: some of its last messages to each other rank are lost.
    void kill(int rank, dice& d) {
        for (mailbox& to : boxes_) {
            std::deque<control_message>& said = to.arrived[rank];
            said.resize(d.below(said.size() + 1));
        }
    }

private:
    class wire final : public messages {
    public:
        wire(const network_traits& traits, control_world& world, int rank)
            : messages(traits), world_(world), rank_(rank) {}

        void send(int, int, int, const void*, std::size_t) noexcept override {}
        void recv(int, int, int, void*, std::size_t) noexcept override {}
        std::span<const int> poll() noexcept override { return {}; }
        bool abandon() noexcept override { return true; }
        void send_control(int peer, const control_message& m) noexcept override {
            world_.of(peer).arrived[rank_].push_back({rank_, m.words});
            world_.of(rank_).peers.insert(peer);
            ++world_.of(rank_).sent;
        }
        std::optional<control_message> take_control() noexcept override {
            mailbox& own = world_.of(rank_);
            std::erase_if(own.arrived, [](const auto& from) { return from.second.empty(); });
            if (own.arrived.empty() || own.may_take == 0) return {};
            --own.may_take;
            auto next = own.arrived.upper_bound(last_);
            if (next == own.arrived.end()) next = own.arrived.begin();
            last_ = next->first;
            const control_message m = next->second.front();
            next->second.pop_front();
            return m;
        }

    private:
        control_world& world_;
        const int rank_;
        int last_ = -1;  // sender of the last message taken
    };
    struct only_network final : network {
        explicit only_network(control_world& w) : network({.name = "control"}), world(w) {}
        std::unique_ptr<messages> connect(team& ranks, int) override {
            return std::make_unique<wire>(traits(), world, ranks.rank());
        }
        control_world& world;
    };

    std::vector<mailbox> boxes_;
};

}  // namespace terrace::detail::test
