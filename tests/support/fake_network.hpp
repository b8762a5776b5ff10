#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "executor/endpoint.hpp"

namespace terrace::detail::test {

/// A rank's network, on which the test decides when a message completes.
class fake_messages final : public messages {
public:
    struct started {
        bool sends = false;
        int slot = 0, peer = 0, tag = 0;
        const std::byte* from = nullptr;  ///< of a send
        std::byte* to = nullptr;          ///< of a receive
        std::size_t bytes = 0;
    };

    using messages::messages;

    void send(int slot, int peer, int tag, const void* from, std::size_t bytes) noexcept override {
        in_flight.push_back({true, slot, peer, tag, static_cast<const std::byte*>(from), nullptr, bytes});
    }
    void recv(int slot, int peer, int tag, void* to, std::size_t bytes) noexcept override {
        in_flight.push_back({false, slot, peer, tag, nullptr, static_cast<std::byte*>(to), bytes});
    }
    std::span<const int> poll() noexcept override {
        done_ = std::exchange(completed_, {});
        return done_;
    }
    void send_control(int, const control_message&) noexcept override {}
    std::optional<control_message> take_control() noexcept override { return {}; }
    bool abandon() noexcept override { return true; }

    /// Completes the n-th message in flight: poll() will return its slot.
    started complete(std::size_t n = 0) {
        const started m = in_flight[n];
        in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(n));
        completed_.push_back(m.slot);
        return m;
    }
    /// Copies the data into the n-th message in flight, a receive, and completes it.
    template <class T>
    void deliver(std::size_t n, const std::vector<T>& data) {
        EXPECT_EQ(in_flight[n].bytes, data.size() * sizeof(T));
        std::memcpy(in_flight[n].to, data.data(), in_flight[n].bytes);
        complete(n);
    }

    std::vector<started> in_flight;  ///< in the order of their start

private:
    std::vector<int> completed_, done_;
};

/// Runs all stages, with lane slots of 4 KiB each. The test decides when a stage completes.
class fake_stages final : public node_stage_runner {
public:
    static constexpr std::size_t slot_bytes = 4096;

    struct started {
        int slot = 0;
        const stage_call* call = nullptr;
    };

    explicit fake_stages(int lane_slots) : memory(static_cast<std::size_t>(lane_slots) * slot_bytes) {
        can_.stages = ~0u;
        can_.slot_bytes = slot_bytes;
        can_.slots = lane_slots;
    }

    void start(int slot, const stage_call& call) noexcept override { in_flight.push_back({slot, &call}); }
    void poll(std::vector<int>& done) noexcept override {
        done.insert(done.end(), completed_.begin(), completed_.end());
        completed_.clear();
    }
    std::vector<int> missing(int) const override { return {1}; }
    void take_lanes(std::size_t) override {}
    std::byte* lane_memory(int lane_slot, std::size_t) noexcept override {
        return memory.data() + static_cast<std::size_t>(lane_slot) * slot_bytes;
    }
    bool lane_ready(int) noexcept override { return readers.empty(); }
    std::vector<int> lane_readers(int) const override { return readers; }
    std::shared_ptr<std::byte> allocate_window(std::size_t) override { return nullptr; }
    bool reachable(const void*, std::size_t) const noexcept override { return false; }
    bool wait() noexcept override { return true; }

    /// Completes the oldest stage.
    void complete() {
        completed_.push_back(in_flight.front().slot);
        in_flight.erase(in_flight.begin());
    }

    std::vector<started> in_flight;
    std::vector<int> readers;  ///< ranks that still read the slots
    std::vector<std::byte> memory;

private:
    std::vector<int> completed_;
};

/// Exchanges nothing.
struct no_bootstrap final : bootstrap {
    using bootstrap::bootstrap;
    std::vector<std::string> exchange(std::span<const int> ranks, std::string_view, std::string_view,
                                      const wait_hook&) override {
        return std::vector<std::string>(ranks.size());
    }
};

/// Rank 0 of a job whose other ranks do not exist.
class fake_rank {
public:
    /// @param segment bytes of the longest segment of a message   @param lane_slots 0: runs no stages
    explicit fake_rank(int ranks = 4, std::size_t segment = 1 << 20, int slots = 1024, int lane_slots = 0)
        : net({std::make_shared<only_network>(segment, *this), nullptr,
               team(std::make_shared<no_bootstrap>("node"), 0, ranks)},
              slots) {
        if (lane_slots == 0) return;
        auto made = std::make_unique<fake_stages>(lane_slots);
        stages = made.get();
        net.add(std::unique_ptr<node_stage_runner>(std::move(made)));
    }

    fake_messages* wire = nullptr;
    fake_stages* stages = nullptr;
    endpoint net;

private:
    struct only_network final : network {
        only_network(std::size_t segment, fake_rank& r) : network({.name = "fake", .segment = segment}), rank(r) {}
        std::unique_ptr<messages> connect(team&, int) override {
            auto made = std::make_unique<fake_messages>(traits());
            rank.wire = made.get();
            return made;
        }
        fake_rank& rank;
    };
};

}  // namespace terrace::detail::test
