// Execution traces of MLCommons Chakra (schema/protobuf/et_def.proto there), one file for each rank. A file consists of
// messages of Protocol Buffers, each after its length: GlobalMetadata, then a Node for each instruction. A node lists
// the memory that it reads and writes as Chakra's tensors: [id, storage, offset, elements, bytes per element, device].

#include <array>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <terrace/error.hpp>

#include "base/index.hpp"
#include "tools/terrace/exports/formats.hpp"

namespace terrace::detail {

namespace {

constexpr int element = 4;                     // bytes: float32
constexpr std::size_t most_nodes = 1'000'000;  // limit for reading, over all ranks

// Numbers of fields and node types, as in et_def.proto.
enum metadata_field : std::uint32_t { metadata_version = 1, metadata_attr = 2 };
enum node_field : std::uint32_t {
    node_id = 1,
    node_name = 2,
    node_type = 3,
    node_data_deps = 5,
    node_inputs = 8,
    node_outputs = 9,
    node_attr = 10
};
enum io_field : std::uint32_t { io_values = 1 };
enum attr_field : std::uint32_t {
    attr_name = 1,
    attr_int32 = 7,
    attr_int64 = 9,
    attr_uint64 = 13,
    attr_bool = 27,
    attr_string = 29
};
enum class node_kind : std::uint8_t { compute = 4, send = 5, recv = 6 };

// ---- The part of Protocol Buffers that these messages need. A field is its number and wire type, followed by a number
// with seven bits per byte, or by a length and this many bytes.

enum wire : std::uint32_t { number_wire = 0, eight_bytes = 1, bytes_wire = 2, four_bytes = 5 };

void put_number(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
}

void put(std::string& out, std::uint32_t field, std::uint64_t value) {
    put_number(out, field << 3 | number_wire);
    put_number(out, value);
}

void put(std::string& out, std::uint32_t field, std::string_view bytes) {
    put_number(out, field << 3 | bytes_wire);
    put_number(out, bytes.size());
    out += bytes;
}

// The rest of a file, or of a message in it.
class input {
public:
    input(const std::string& file, std::string_view all) : file_(file), all_(all), end_(all.size()) {}

    bool empty() const { return next_ == end_; }
    [[noreturn]] void fail(const std::string& why) const {
        throw input_error(file_, 0, 0, fmt::format("at byte {}: {}", next_, why));
    }

    std::uint64_t number() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (empty()) fail("ends inside a number");
            const auto byte = static_cast<unsigned char>(all_[next_++]);
            value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        fail("a number of more than 64 bits");
    }

    // Returns a message, or other bytes, after their length.
    input part() {
        const std::uint64_t length = number();
        if (length > end_ - next_) fail(fmt::format("{} bytes are announced, {} are left", length, end_ - next_));
        input inner = *this;
        inner.end_ = next_ += length;
        return inner;
    }
    std::string text() const { return std::string(all_.substr(next_, end_ - next_)); }

    // Calls f(field, number, bytes) for each field with a number or bytes; the other argument is 0 or empty.
    template <class F>
    void for_each_field(F&& f) {
        while (!empty()) {
            const std::uint64_t key = number();
            const std::uint64_t field = key >> 3;
            if (field == 0 || field > std::numeric_limits<std::int32_t>::max()) fail(fmt::format("no field {}", field));
            if ((key & 7) == number_wire) {
                const std::uint64_t value = number();
                input none = *this;
                none.end_ = none.next_;
                f(static_cast<std::uint32_t>(field), value, none);
            } else if ((key & 7) == bytes_wire) {
                f(static_cast<std::uint32_t>(field), std::uint64_t{0}, part());
            } else if ((key & 7) == eight_bytes || (key & 7) == four_bytes) {
                const std::size_t length = (key & 7) == eight_bytes ? 8 : 4;
                if (end_ - next_ < length) fail("ends inside a field");
                next_ += length;
            } else {
                fail(fmt::format("no wire type {}", key & 7));
            }
        }
    }

private:
    const std::string& file_;
    std::string_view all_;
    std::size_t next_ = 0, end_;
};

// ---- Writing.

template <class Value>
void put_attr(std::string& out, std::uint32_t in, std::string_view name, attr_field kind, const Value& value) {
    std::string attr;
    put(attr, attr_name, name);
    put(attr, kind, value);
    put(out, in, attr);
}

std::string metadata_of(const call_program& call, int rank) {
    std::string out;
    put(out, metadata_version, "1.0.0");
    put_attr(out, metadata_attr, "made_by", attr_string, "made by terrace export --to chakra");
    put_attr(out, metadata_attr, "collective", attr_string, to_string(call.what));
    put_attr(out, metadata_attr, "elements", attr_int64, static_cast<std::uint64_t>(call.elements));
    put_attr(out, metadata_attr, "root", attr_int64, static_cast<std::uint64_t>(call.root));
    put_attr(out, metadata_attr, "rank", attr_int64, static_cast<std::uint64_t>(rank));
    put_attr(out, metadata_attr, "ranks", attr_int64, call.ranks.size());
    return out;
}

// Writes a file node by node.
class trace_writer {
public:
    explicit trace_writer(const schedule& s) : s_(s), scratch_(s.scratch), after_(s.instrs.size()) {}

    std::string write(const std::string& metadata) {
        put_message(metadata);
        for (std::size_t n = 0; n < s_.instrs.size(); ++n) {
            const instr& i = s_.instrs[n];
            std::uint64_t last = id_;
            if (i.what == action::send) put_node(node_kind::send, i, after_[n], {i.src}, {});
            else if (i.what == action::recv) put_node(node_kind::recv, i, after_[n], {}, {i.dst});
            else if (i.what == action::copy) put_node(node_kind::compute, i, after_[n], {i.src}, {i.dst});
            else if (i.what == action::reduce)
                put_node(node_kind::compute, i, after_[n], {s_.sources_of(i).begin(), s_.sources_of(i).end()}, {i.dst});
            else {  // received data are added by a second node
                const operand arrived{buffer::scratch, {scratch_, scratch_ + i.dst.part.count()}};
                scratch_ = arrived.part.end;
                put_node(node_kind::recv, i, after_[n], {}, {arrived});
                put_node(node_kind::compute, i, {last}, {i.src, arrived}, {i.dst});
                ++last;
            }
            for (const std::uint32_t later : s_.successors_of(i)) after_[later].push_back(last);
        }
        return std::move(out_);
    }

private:
    void put_message(const std::string& message) {
        put_number(out_, message.size());
        out_ += message;
    }

    void put_io(std::string& node, node_field field, const std::vector<operand>& all) {
        std::vector<std::string> tensors;
        for (const operand& o : all)
            tensors.push_back(fmt::format("[{}, {}, {}, {}, {}, \"\"]", tensor_++, static_cast<int>(o.where),
                                          o.part.begin, o.part.count(), element));
        std::string io;
        put(io, io_values, fmt::format("[{}]", fmt::join(tensors, ", ")));
        put(node, field, io);
    }

    void put_node(node_kind kind, const instr& i, const std::vector<std::uint64_t>& after,
                  const std::vector<operand>& inputs, const std::vector<operand>& outputs) {
        const auto bytes = static_cast<std::uint64_t>((inputs.empty() ? outputs : inputs)[0].part.count() * element);
        std::string node;
        put(node, node_id, id_++);
        put(node, node_name,
            kind == node_kind::send   ? fmt::format("send to {}", i.peer)
            : kind == node_kind::recv ? fmt::format("recv from {}", i.peer)
            : inputs.size() == 1      ? "copy"
                                      : "reduce");
        put(node, node_type, static_cast<std::uint64_t>(kind));
        for (const std::uint64_t id : after) put(node, node_data_deps, id);
        put_io(node, node_inputs, inputs);
        put_io(node, node_outputs, outputs);
        put_attr(node, node_attr, "is_cpu_op", attr_bool, 0U);
        if (kind == node_kind::compute) {
            put_attr(node, node_attr, "num_ops", attr_int64, (inputs.size() - 1) * bytes / element);
            put_attr(node, node_attr, "tensor_size", attr_uint64, bytes);
        } else {
            const bool sends = kind == node_kind::send;
            put_attr(node, node_attr, "comm_size", attr_int64, bytes);
            put_attr(node, node_attr, "comm_src", attr_int32, static_cast<std::uint64_t>(sends ? s_.rank : i.peer));
            put_attr(node, node_attr, "comm_dst", attr_int32, static_cast<std::uint64_t>(sends ? i.peer : s_.rank));
            put_attr(node, node_attr, "comm_tag", attr_int32, static_cast<std::uint64_t>(i.channel));
        }
        put_message(node);
    }

    const schedule& s_;
    std::string out_;
    std::int64_t scratch_;
    std::vector<std::vector<std::uint64_t>> after_;  // by instruction: ids of the nodes that it waits for
    std::uint64_t id_ = 0, tensor_ = 0;
};

// ---- Reading.

constexpr std::int64_t most_elements = std::int64_t{1} << 48;
constexpr std::size_t most_tensor_bytes = 1 << 20;  // limit for a node

struct attribute {
    std::string name, text;
    std::uint64_t number = 0;
};

attribute read_attr(input in) {
    attribute a;
    in.for_each_field([&](std::uint32_t field, std::uint64_t number, const input& bytes) {
        if (field == attr_name) a.name = bytes.text();
        else if (field == attr_string) a.text = bytes.text();
        else a.number = number;
    });
    return a;
}

struct head {
    std::string collective;
    std::map<std::string, std::uint64_t> numbers;
    auto operator<=>(const head&) const = default;
};

// Returns the metadata that all files share. @throws input_error if this is not the file of this rank
head read_head(input in, int rank, std::size_t ranks) {
    head h;
    in.for_each_field([&](std::uint32_t field, std::uint64_t, const input& bytes) {
        if (field != metadata_attr) return;
        const attribute a = read_attr(bytes);
        if (a.name == "collective") h.collective = a.text;
        else h.numbers[a.name] = a.number;
    });
    for (const char* name : {"elements", "root", "rank", "ranks"})
        if (!h.numbers.contains(name))
            in.fail(fmt::format("no \"{}\" in the metadata: it is no trace of one collective call", name));
    if (h.numbers["rank"] != static_cast<std::uint64_t>(rank) || h.numbers["ranks"] != ranks)
        in.fail(fmt::format("is rank {} of {}, but stands as rank {} of {}", h.numbers["rank"], h.numbers["ranks"],
                            rank, ranks));
    if (!parse_collective(h.collective)) in.fail(fmt::format("no collective {:?}", h.collective));
    if (h.numbers["elements"] > static_cast<std::uint64_t>(most_elements)) in.fail("too many elements");
    if (h.numbers["root"] >= ranks) in.fail(fmt::format("no rank {} to be the root", h.numbers["root"]));
    h.numbers.erase("rank");
    return h;
}

std::vector<operand> read_tensors(input in) {
    std::vector<operand> all;
    in.for_each_field([&](std::uint32_t field, std::uint64_t, const input& bytes) {
        if (field != io_values) return;
        if (bytes.text().size() > most_tensor_bytes) bytes.fail("a list of tensors of more than 1 MiB");
        const nlohmann::json list = nlohmann::json::parse(bytes.text(), nullptr, false);
        if (!list.is_array()) bytes.fail("no list of tensors");
        for (const nlohmann::json& tensor : list) {
            if (!tensor.is_array() || tensor.size() < 5) bytes.fail("a tensor is none: [id, storage, offset, ...]");
            std::array<std::int64_t, 4> of{};  // storage, offset, elements, bytes per element
            for (std::size_t n = 0; n < of.size(); ++n) {
                if (!tensor[n + 1].is_number_integer()) bytes.fail("a tensor has something else than whole numbers");
                of[n] = tensor[n + 1].get<std::int64_t>();
                if (of[n] < 0 || of[n] > most_elements) bytes.fail(fmt::format("a tensor has {}", of[n]));
            }
            if (of[0] > static_cast<int>(buffer::scratch)) bytes.fail(fmt::format("no storage {}", of[0]));
            if (of[3] != element) bytes.fail(fmt::format("elements of {} bytes, not of {}", of[3], element));
            all.push_back({static_cast<buffer>(of[0]), {of[1], of[1] + of[2]}});
        }
    });
    return all;
}

struct node {
    std::uint64_t id = 0, type = 0;
    std::vector<std::uint64_t> after;
    std::vector<operand> inputs, outputs;
    std::map<std::string, std::uint64_t> attrs;
};

node read_node(input in) {
    node made;
    in.for_each_field([&](std::uint32_t field, std::uint64_t number, input bytes) {
        if (field == node_id) made.id = number;
        if (field == node_type) made.type = number;
        if (field == node_inputs) made.inputs = read_tensors(bytes);
        if (field == node_outputs) made.outputs = read_tensors(bytes);
        if (field == node_attr) {
            const attribute a = read_attr(bytes);
            made.attrs[a.name] = a.number;
        }
        if (field != node_data_deps && field != node_data_deps - 1) return;  // control dependencies: one less
        if (bytes.empty()) made.after.push_back(number);
        while (!bytes.empty()) made.after.push_back(bytes.number());  // packed
    });
    return made;
}

// Reads the nodes of all files.
class trace_reader {
public:
    trace_reader(const head& h, int ranks)
        : all_(ranks, *parse_collective(h.collective), static_cast<std::int64_t>(h.numbers.at("elements")),
               static_cast<int>(h.numbers.at("root"))),
          ranks_(ranks) {}

    void read(int rank, input nodes) {
        std::map<std::uint64_t, int> known;  // by id
        while (!nodes.empty()) {
            const node n = read_node(nodes.part());
            const auto refuse = [&](const std::string& why) { nodes.fail(fmt::format("node {}: {}", n.id, why)); };
            if (all_.size() == most_nodes) refuse(fmt::format("there are more than {} nodes", most_nodes));
            std::vector<int> after;
            for (const std::uint64_t id : n.after) {
                const auto found = known.find(id);
                if (found == known.end()) refuse(fmt::format("waits for node {}, which is none before it", id));
                after.push_back(found->second);
            }
            if (!known.emplace(n.id, add(rank, n, after, refuse)).second) refuse("its number is that of another one");
        }
    }

    // Pairs sends with receives. @throws input_error
    call_program finish(const std::string& file) {
        for (const auto& [way, recv] : receives_) {
            const auto send = sends_.find(way);
            if (send == sends_.end()) refuse(file, way, "received, but not sent");
            all_.pair(std::get<0>(way), send->second, std::get<1>(way), recv);
            sends_.erase(send);
        }
        if (!sends_.empty()) refuse(file, sends_.begin()->first, "sent, but not received");
        return all_.finish(file);
    }

private:
    using message = std::tuple<int, int, std::uint64_t>;  // from, to, tag

    [[noreturn]] static void refuse(const std::string& file, const message& m, const char* why) {
        const auto& [from, to, tag] = m;
        throw input_error(file, 0, 0, fmt::format("the message from {} to {} with tag {} is {}", from, to, tag, why));
    }

    template <class Refuse>
    int add(int rank, const node& n, const std::vector<int>& after, const Refuse& refuse) {
        const auto attr = [&](const char* name) {
            const auto found = n.attrs.find(name);
            if (found == n.attrs.end()) refuse(fmt::format("has no {}", name));
            return found->second;
        };
        if (n.type == static_cast<std::uint64_t>(node_kind::compute)) {
            if (n.inputs.empty() || n.outputs.size() != 1) refuse("does not say which memory it reads and writes");
            return all_.add(rank, n.inputs.size() > 1 ? action::reduce : action::copy, n.outputs[0], n.inputs, after);
        }
        const bool sends = n.type == static_cast<std::uint64_t>(node_kind::send);
        if (!sends && n.type != static_cast<std::uint64_t>(node_kind::recv))
            refuse(fmt::format("type {}: only sends, receives and computations of single calls are read", n.type));
        const std::vector<operand>& memory = sends ? n.inputs : n.outputs;
        if (memory.size() != 1) refuse("does not say which memory the message is in");
        if (attr("comm_size") != static_cast<std::uint64_t>(memory[0].part.count() * element))
            refuse(fmt::format("{} bytes, but the memory has {}", attr("comm_size"), memory[0].part.count() * element));
        const std::uint64_t from = attr("comm_src"), to = attr("comm_dst");
        if (from >= at(ranks_) || to >= at(ranks_) || from == to || (sends ? from : to) != at(rank))
            refuse(fmt::format("a message from rank {} to rank {}", from, to));
        const int number = sends ? all_.add(rank, action::send, {}, memory, after)
                                 : all_.add(rank, action::recv, memory[0], {}, after);
        const message m{static_cast<int>(from), static_cast<int>(to), attr("comm_tag")};
        if (!(sends ? sends_ : receives_).emplace(m, number).second) refuse("its tag is that of another message");
        return number;
    }

    program_collector all_;
    int ranks_;
    std::map<message, int> sends_, receives_;
};

}  // namespace

std::string chakra_note(const call_program& call) {
    std::size_t nodes = 0;
    for (const schedule& s : call.ranks)
        for (const instr& i : s.instrs) nodes += i.what == action::recv_reduce ? 2 : 1;
    if (nodes <= most_nodes) return "";
    return fmt::format("{} nodes in the files: terrace verify reads up to {}", nodes, most_nodes);
}

written_call chakra_traces(const plan_data& plan, collective what, std::int64_t bytes) {
    const call_program call = program_of(plan, what, bytes);
    written_call made{{}, chakra_note(call)};
    for (const schedule& s : call.ranks) made.texts.push_back(trace_writer(s).write(metadata_of(call, s.rank)));
    return made;
}

call_program read_chakra(std::span<const named_text> files) {
    std::optional<head> common;
    std::optional<trace_reader> reader;
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
        input in(files[rank].name, files[rank].text);
        const head h = read_head(in.part(), static_cast<int>(rank), files.size());
        if (!common) {
            common = h;
            reader.emplace(h, static_cast<int>(files.size()));
        }
        if (h != *common) in.fail(fmt::format("is of another call than {}", files[0].name));
        reader->read(static_cast<int>(rank), in);
    }
    return reader->finish(files[0].name);
}

}  // namespace terrace::detail
