#include "support/uneven_blocks.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <terrace/error.hpp>

#include "base/element_types.hpp"
#include "support/dice.hpp"

namespace terrace::detail::test {

namespace {

std::int64_t count_between(const uneven_case& c, int from, int to) {
    if ((c.what == collective::gather && to != c.root) || (c.what == collective::scatter && from != c.root)) return 0;
    const std::uint64_t h = dice(c.salt + static_cast<std::uint64_t>(1000 * from + to)).roll();
    if (h % 4 == 0) return 0;
    return h % 4 == 1 ? c.most : static_cast<std::int64_t>((h >> 8) % static_cast<std::uint64_t>(c.most + 1));
}

std::byte byte_of(const uneven_case& c, int from, int to, std::size_t i) {
    return static_cast<std::byte>(dice(c.salt + i * 77 + static_cast<std::uint64_t>(1000 * from + to)).roll() & 0xff);
}

constexpr std::byte untouched{0x5a};

}  // namespace

uneven_case random_uneven_case(dice& d, int ranks) {
    return {.salt = d.roll(),
            .most = static_cast<std::int64_t>(d.below(1u << d.below(13))),
            .has_room = d.below(8) != 0,
            .type = d.pick(std::vector{element_type::uint8, element_type::float32, element_type::complex128}),
            .what = d.pick(std::vector{collective::alltoall, collective::gather, collective::scatter}),
            .root = static_cast<int>(d.below(static_cast<std::size_t>(ranks)))};
}

namespace {

// A call and its buffers on one rank.
class uneven_exchange {
public:
    uneven_exchange(communicator& comm, const uneven_case& c)
        : comm_(comm), case_(c), is_root_(comm.rank() == c.root), got_(static_cast<std::size_t>(comm.size()), -1) {
        const int me = comm.rank();
        const std::size_t element = size_of(c.type);
        for (int r = 0; r < comm.size(); ++r) {
            sent_.push_back(count_between(c, me, r));
            due_.push_back(count_between(c, r, me));
            for (std::size_t i = 0; i < static_cast<std::size_t>(sent_.back()) * element; ++i)
                send_.push_back(byte_of(c, me, r, i));
            for (std::size_t i = 0; i < static_cast<std::size_t>(due_.back()) * element; ++i)
                expected_.push_back(byte_of(c, r, me, i));
        }
        const std::int64_t all = std::reduce(due_.begin(), due_.end());
        lacks_room_ = !c.has_room && me == 0 && all > 0;
        room_ = lacks_room_ ? all - 1 : all + 2;
        recv_.resize(expected_.size() + 3 * element, untouched);
        if (lacks_room_) std::fill(expected_.begin(), expected_.end(), untouched);
        expected_.resize(recv_.size(), untouched);
        if (c.what == collective::scatter || (c.what == collective::gather && !is_root_)) got_ = due_;
    }

    void make() {
        switch (case_.what) {
            case collective::gather:
                comm_.gatherv(send_.data(), sent_[root()], recv_.data(), room_, std::span(got_).first(told()),
                              case_.type, case_.root);
                break;
            case collective::scatter:
                got_[root()] = comm_.scatterv(send_.data(), std::span(std::as_const(sent_)).first(told()), recv_.data(),
                                              room_, case_.type, case_.root);
                break;
            default: comm_.alltoallv(send_.data(), sent_, recv_.data(), room_, got_, case_.most, case_.type);
        }
    }
    request start() {
        switch (case_.what) {
            case collective::gather:
                return comm_.gatherv_async(send_.data(), sent_[root()], recv_.data(), room_,
                                           std::span(got_).first(told()), case_.type, case_.root);
            case collective::scatter:
                return comm_.scatterv_async(send_.data(), std::span(std::as_const(sent_)).first(told()), recv_.data(),
                                            room_, got_[root()], case_.type, case_.root);
            default:
                return comm_.alltoallv_async(send_.data(), sent_, recv_.data(), room_, got_, case_.most, case_.type);
        }
    }
    // Runs `call`, which may only fail for lack of room. Returns the number of wrong counts and bytes.
    template <class Call>
    std::int64_t wrong_after(Call call) const {
        std::int64_t wrong = 0;
        bool refused = false;
        try {
            call();
        } catch (const usage_error&) {
            if (!lacks_room_) throw;
            refused = true;
        }
        for (std::size_t i = 0; i < recv_.size(); ++i) wrong += recv_[i] != expected_[i];
        return wrong + (refused != lacks_room_) + (got_ != due_);
    }

private:
    std::size_t root() const { return static_cast<std::size_t>(case_.root); }
    std::size_t told() const { return is_root_ ? got_.size() : 0; }

    communicator& comm_;
    uneven_case case_;
    bool is_root_, lacks_room_ = false;
    std::int64_t room_ = 0;
    std::vector<std::int64_t> sent_, due_, got_;
    std::vector<std::byte> send_, recv_, expected_;
};

}  // namespace

std::int64_t wrong_in(communicator& comm, const uneven_case& c) {
    uneven_exchange e(comm, c);
    return e.wrong_after([&] { e.make(); });
}

std::int64_t wrong_in_flight(communicator& comm, std::span<const uneven_case> cases, bool in_a_group) {
    std::deque<uneven_exchange> all;
    std::vector<request> requests;
    std::vector<std::int64_t> sums(cases.size(), 1);
    std::int64_t wrong = 0;
    if (in_a_group) comm.group_start();
    for (std::size_t i = 0; i < cases.size(); ++i) {
        requests.push_back(all.emplace_back(comm, cases[i]).start());
        requests.push_back(comm.allreduce_async(std::span(sums).subspan(i, 1)));
    }
    if (in_a_group) comm.group_end();
    for (std::size_t i = cases.size(); i-- > 0;) {
        requests[2 * i + 1].wait();
        wrong += sums[i] != comm.size();
        wrong += all[i].wrong_after([&] { requests[2 * i].wait(); });
    }
    return wrong;
}

}  // namespace terrace::detail::test
