#include "support/uneven_blocks.hpp"

#include <algorithm>
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

std::int64_t wrong_in(communicator& comm, const uneven_case& c) {
    const int me = comm.rank(), ranks = comm.size();
    const std::size_t element = size_of(c.type);
    std::vector<std::int64_t> sent, due, got(static_cast<std::size_t>(ranks), -1);
    std::vector<std::byte> send, expected;
    for (int r = 0; r < ranks; ++r) {
        sent.push_back(count_between(c, me, r));
        due.push_back(count_between(c, r, me));
        for (std::size_t i = 0; i < static_cast<std::size_t>(sent.back()) * element; ++i)
            send.push_back(byte_of(c, me, r, i));
        for (std::size_t i = 0; i < static_cast<std::size_t>(due.back()) * element; ++i)
            expected.push_back(byte_of(c, r, me, i));
    }
    const std::int64_t all = std::reduce(due.begin(), due.end());
    const bool lacks_room = !c.has_room && me == 0 && all > 0;
    std::vector<std::byte> recv(expected.size() + 3 * element, untouched);
    bool refused = false;
    try {
        const std::int64_t room = lacks_room ? all - 1 : all + 2;
        const bool is_root = me == c.root;
        const std::size_t told = is_root ? got.size() : 0;
        switch (c.what) {
            case collective::gather:
                comm.gatherv(send.data(), sent[static_cast<std::size_t>(c.root)], recv.data(), room,
                             std::span(got).first(told), c.type, c.root);
                if (!is_root) got = due;
                break;
            case collective::scatter:
                got = due;
                got[static_cast<std::size_t>(c.root)] = comm.scatterv(
                    send.data(), std::span(std::as_const(sent)).first(told), recv.data(), room, c.type, c.root);
                break;
            default: comm.alltoallv(send.data(), sent, recv.data(), room, got, c.most, c.type);
        }
    } catch (const usage_error&) {
        if (!lacks_room) throw;
        refused = true;
    }
    if (lacks_room) std::fill(expected.begin(), expected.end(), untouched);
    expected.resize(recv.size(), untouched);
    std::int64_t wrong = refused != lacks_room;
    for (std::size_t i = 0; i < recv.size(); ++i) wrong += recv[i] != expected[i];
    return wrong + (got != due);
}

}  // namespace terrace::detail::test
