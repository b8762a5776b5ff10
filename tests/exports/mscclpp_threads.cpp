#include "exports/mscclpp_threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "support/dice.hpp"

namespace terrace::detail::test {
namespace {

using nlohmann::json;
using number = std::uint64_t;

constexpr std::size_t per_chunk = 6;  // numbers
constexpr std::chrono::seconds patience{10};

struct memory {
    std::vector<number> own[3];     // input, output, scratch
    number* buffer[3] = {};         // two are equal in place
    std::vector<number> passed_in;  // initial input
};

class interpreter {
public:
    interpreter(const json& plan, bool in_place, std::uint64_t seed) : plan_(plan), gpus_(plan.at("gpus")) {
        dice d(seed);
        const std::string what = plan.at("collective");
        for (std::size_t r = 0; r < gpus_.size(); ++r) {
            const json& g = gpus_[r];
            memory& m = memories_.emplace_back();
            std::size_t chunks[3] = {g.at("input_chunks"), g.at("output_chunks"), g.at("scratch_chunks")};
            for (int b = 0; b < 3; ++b) {
                m.own[b].resize(per_chunk * chunks[b], 0xdead);
                m.buffer[b] = m.own[b].data();
            }
            if (in_place && what == "allreduce") m.buffer[1] = m.buffer[0];
            if (in_place && what == "allgather") m.buffer[0] = m.buffer[1] + r * per_chunk * chunks[0];
            if (in_place && what == "reducescatter") m.buffer[1] = m.buffer[0] + r * per_chunk * chunks[1];
            for (std::size_t e = 0; e < per_chunk * chunks[0]; ++e) m.passed_in.push_back(m.buffer[0][e] = d.roll());
            output_.push_back(per_chunk * (in_place && what == "allreduce" ? chunks[0] : chunks[1]));
            for (const json& list : g.at("channels"))
                for (const int peer : list.at("connected_to")) channels_[r][list.at("channel_type")].push_back(peer);
        }
        for (auto& [rank, types] : channels_)
            for (auto& [type, peers] : types)
                arrived_[{rank, type}] = std::make_unique<std::atomic<int>[]>(peers.size());
        for (std::size_t r = 0; r < gpus_.size(); ++r) barriers_.push_back(std::make_unique<std::atomic<int>[]>(64));
    }

    std::string run(std::uint64_t seed) {
        std::vector<std::thread> threads;
        for (std::size_t r = 0; r < gpus_.size(); ++r)
            for (const json& block : gpus_[r].at("threadblocks"))
                threads.emplace_back([this, r, &block, seed = seed + threads.size()] {
                    try {
                        dice d(seed);
                        for (const json& op : block.at("ops")) run(r, block, op, d);
                    } catch (const std::exception& e) {
                        const std::scoped_lock lock(mutex_);
                        fault_ = e.what();
                    }
                });
        for (std::thread& t : threads) t.join();
        return fault_.empty() ? compared() : fault_;
    }

private:
    struct part {
        number* begin;
        std::size_t size;
    };

    static int buffer_number(const std::string& type) { return type == "i" ? 0 : type == "o" ? 1 : 2; }

    part part_of(std::size_t rank, const json& block, const json& op, const json& ref) {
        int buffer = 0;
        if (ref.contains("buffer_id")) {
            for (const json& list : block.at("remote_buffer_refs"))
                if (list.at("access_channel_type") == op.at("channel_type")) {
                    const json& remote = gpus_[rank].at(
                        "remote_buffers")[list.at("remote_buffer_ids")[ref.at("buffer_id").get<std::size_t>()]
                                              .get<std::size_t>()];
                    return part_in(remote.at("rank"), buffer_number(remote.at("type")), op, ref);
                }
            throw std::runtime_error("no such remote buffer");
        }
        buffer = buffer_number(ref.at("type"));
        return part_in(rank, buffer, op, ref);
    }
    part part_in(std::size_t rank, int buffer, const json& op, const json& ref) {
        number* const begin = memories_[rank].buffer[buffer] + per_chunk * ref.at("index").get<std::size_t>();
        const std::size_t size = per_chunk * ref.at("size").get<std::size_t>();
        if (!op.contains("tbg_info")) return {begin, size};
        const std::size_t blocks = op.at("tbg_info").at("tbg_size"), block = op.at("tbg_info").at("tb_id");
        const std::size_t from = size * block / blocks;
        return {begin + from, size * (block + 1) / blocks - from};
    }

    // A plan with a race has a wrong result, but no undefined behaviour.
    static number load(const number* from) {
        return std::atomic_ref(*const_cast<number*>(from)).load(std::memory_order_relaxed);
    }
    static void store(number* to, number value) { std::atomic_ref(*to).store(value, std::memory_order_relaxed); }

    void run(std::size_t rank, const json& block, const json& op, dice& d) {
        if (d.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(d.below(200)));
        const std::string name = op.at("name");
        std::vector<part> src, dst;
        if (op.contains("src_buff"))
            for (const json& ref : op.at("src_buff")) src.push_back(part_of(rank, block, op, ref));
        if (op.contains("dst_buff"))
            for (const json& ref : op.at("dst_buff")) dst.push_back(part_of(rank, block, op, ref));
        if (name == "barrier") return meet(*barriers(rank, op), op.at("num_threadblocks"));
        if (name == "put" || name == "pws" || name == "pwsf" || name == "copy" || name == "get") {
            for (std::size_t n = 0; n < src.size(); ++n)
                for (std::size_t e = 0; e < src[n].size; ++e) store(dst[n].begin + e, load(src[n].begin + e));
        } else if (name == "re" || name == "rre" || name == "res" || name == "rres") {
            for (std::size_t e = 0; e < src[0].size; ++e) {
                number sum = 0;
                for (const part& p : src) sum += load(p.begin + e);
                for (const part& p : dst) store(p.begin + e, sum);
            }
        }
        const bool signals = name == "signal" || name == "rlxsignal" || name == "pws" || name == "pwsf";
        if (!signals && name != "wait" && name != "rlxwait") return;
        const std::string type = op.at("channel_type");
        for (const json& list : block.at("channels"))
            if (list.at("channel_type") == type)
                for (const std::size_t id : op.at("channel_ids")) {
                    const auto channel = list.at("channel_ids")[id].get<std::size_t>();
                    if (signals) signal(rank, type, channel);
                    else take(arrived_.at({rank, type})[channel]);
                }
    }

    std::atomic<int>* barriers(std::size_t rank, const json& op) {
        return &barriers_[rank][op.at("barrier_id").get<std::size_t>()];
    }

    // The k-th channel from a rank to a peer is also the k-th channel from the peer to the rank.
    void signal(std::size_t rank, const std::string& type, std::size_t channel) {
        const std::vector<int>& mine = channels_.at(rank).at(type);
        const auto peer = static_cast<std::size_t>(mine[channel]);
        const auto nth = std::count(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(channel), mine[channel]);
        const std::vector<int>& theirs = channels_.at(peer).at(type);
        std::ptrdiff_t left = nth;
        for (std::size_t c = 0; c < theirs.size(); ++c)
            if (theirs[c] == static_cast<int>(rank) && left-- == 0) {
                ++arrived_.at({peer, type})[c];
                return;
            }
    }

    void take(std::atomic<int>& signals) {
        wait_for([&] {
            int there = signals.load();
            return there > 0 && signals.compare_exchange_strong(there, there - 1);
        });
    }

    // The counter is not reset between rounds of the barrier.
    void meet(std::atomic<int>& arrived, int all) {
        const int mine = arrived++;
        wait_for([&] { return arrived.load() >= (mine / all + 1) * all; });
    }

    template <class Holds>
    void wait_for(const Holds& holds) {
        const auto end = std::chrono::steady_clock::now() + patience;
        while (!holds()) {
            if (std::chrono::steady_clock::now() > end) throw std::runtime_error("waits for ever");
            std::this_thread::yield();
        }
    }

    std::string compared() {
        const std::string what = plan_.at("collective");
        for (std::size_t r = 0; r < memories_.size(); ++r)
            for (std::size_t e = 0; e < output_[r]; ++e) {
                number due = 0;
                const std::size_t place = what == "reducescatter" ? r * output_[r] + e : e;
                const std::size_t block = memories_[0].passed_in.size();
                if (what == "allgather") due = memories_[e / block].passed_in[e % block];
                else
                    for (const memory& m : memories_) due += m.passed_in[place];
                if (memories_[r].buffer[1][e] != due) return fmt::format("rank {}: element {} is wrong", r, e);
            }
        return "";
    }

    const json& plan_;
    const json& gpus_;
    std::vector<memory> memories_;
    std::vector<std::size_t> output_;                                          // numbers, by rank
    std::map<std::size_t, std::map<std::string, std::vector<int>>> channels_;  // peers, by rank and type
    std::map<std::pair<std::size_t, std::string>, std::unique_ptr<std::atomic<int>[]>> arrived_;
    std::vector<std::unique_ptr<std::atomic<int>[]>> barriers_;
    std::mutex mutex_;
    std::string fault_;
};

}  // namespace

std::string run_on_threads(const nlohmann::json& plan, bool in_place, std::uint64_t seed) {
    return interpreter(plan, in_place, seed).run(seed);
}

}  // namespace terrace::detail::test
