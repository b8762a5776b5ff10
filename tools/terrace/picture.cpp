#include "tools/terrace/picture.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/index.hpp"
#include "base/units.hpp"
#include "tools/common/svg.hpp"
#include "tools/terrace/summary.hpp"

namespace terrace::detail {

namespace {

// ---- what is drawn of the tree --------------------------------------------------------------------------------------

// A domain of a level; of level -1 a rank.
struct box {
    int level = -1, number = 0;
    std::vector<box> children;
    int left_out = 0;  // children between the last but one and the last
    double x = 0;      // of its middle
};

int leaves(const box& b) {
    if (b.children.empty()) return 1;
    int n = b.left_out > 0 ? 1 : 0;
    for (const box& c : b.children) n += leaves(c);
    return n;
}

// Draws at most `shown` children of a level's domains; one alone is not worth leaving out.
box box_of(const tree& t, const std::vector<int>& shown, int level, int number) {
    box b{level, number, {}, 0, 0};
    if (level < 0) return b;
    const int first = t.first_child(level, number), end = t.first_child(level, number + 1);
    const bool all = end - first <= std::max(3, shown[at(level)]);
    for (int child = first; child < end; ++child) {
        if (!all && child - first >= shown[at(level)] - 1 && child < end - 1) {
            ++b.left_out;
            continue;
        }
        b.children.push_back(box_of(t, shown, level - 1, child));
    }
    return b;
}

// With about so many ranks, if it can be.
box tree_of(const hierarchy& machine, double most) {
    const tree& t = machine.shape;
    std::vector<int> shown;
    for (const auto& children : t.children()) shown.push_back(*std::max_element(children.begin(), children.end()));
    while (true) {
        double ranks = 1;
        for (const int n : shown) ranks *= n;
        if (ranks <= 64 * most) {
            box drawn = box_of(t, shown, machine.depth() - 1, 0);
            if (leaves(drawn) <= most) return drawn;
        }
        int& widest = *std::max_element(shown.begin(), shown.end());
        if (widest <= 2) return box_of(t, shown, machine.depth() - 1, 0);
        --widest;
    }
}

std::string name_of(const hierarchy& machine, const box& b) {
    if (b.level < 0) return fmt::format("{}", b.number);
    const int nodes = machine.node_levels();
    if (b.level == nodes - 1 && !machine.hosts.empty()) return machine.hosts[at(b.number)];
    if (const auto& names = machine.levels[at(b.level)].names; !names.empty()) return names[at(b.number)];
    const std::string& name = machine.levels[at(b.level)].name;
    return machine.shape.domains(b.level) == 1 ? name : fmt::format("{} {}", name, b.number);
}

std::string marked(const std::string& text, bool assumed) { return assumed ? text + " *" : text; }

std::string colour_of_load(double part) { return part > 0.8 ? "#cc3311" : part > 0.4 ? "#ee7733" : "#ddaa33"; }

// ---- SVG ------------------------------------------------------------------------------------------------------------

// The parts of one node as boxes in boxes.
class node_drawing {
public:
    explicit node_drawing(svg& out) : out_(out) {}

    struct size {
        double width, height;
    };

    size measure(const part& p) const {
        const std::vector<const part*> inside = parts_in(p);
        if (inside.empty()) return {std::max(leaf_width, text_width(label(p), 11) + 10), leaf_height};
        const std::vector<size> sizes = sizes_of(inside);
        double width = 0, height = 0, x = 0, row = 0;
        for (const size& s : sizes) {
            if (x > 0 && x + s.width > most_width(p)) height += row + gap, x = 0, row = 0;
            x += s.width + gap;
            width = std::max(width, x - gap);
            row = std::max(row, s.height);
        }
        return {std::max(width, text_width(label(p), 11)) + 2 * gap, height + row + head + gap};
    }

    void draw(const part& p, double x, double y) {
        const size all = measure(p);
        const std::vector<const part*> inside = parts_in(p);
        const std::string fill = inside.empty() ? fill_of(p) : shade(p);
        out_.rect(x, y, all.width, all.height, {.fill = fill, .stroke = "#667", .width = 0.8, .corner = 3});
        if (inside.empty()) {
            out_.text(x + all.width / 2, y + 14, label(p), 11, svg::anchor::middle);
            const std::string below = p.rank >= 0  ? fmt::format("rank {}", p.rank)
                                      : p.rate > 0 ? format_bandwidth(p.rate)
                                                   : "";
            if (!below.empty()) out_.text(x + all.width / 2, y + 27, below, 10, svg::anchor::middle, "#333", true);
            return;
        }
        out_.text(x + gap, y + 13, label(p), 11, svg::anchor::start, "#333");
        double left = x + gap, top = y + head, row = 0;
        const std::vector<size> sizes = sizes_of(inside);
        for (std::size_t i = 0; i < inside.size(); ++i) {
            if (left > x + gap && left - x - gap + sizes[i].width > most_width(p))
                left = x + gap, top += row + gap, row = 0;
            draw(*inside[i], left, top);
            left += sizes[i].width + gap;
            row = std::max(row, sizes[i].height);
        }
    }

private:
    static constexpr double leaf_width = 52, leaf_height = 34, gap = 7, head = 20;

    static double most_width(const part& p) { return p.what == part::kind::machine ? 1050 : 500; }

    // Without those that only hold others.
    static std::vector<const part*> parts_in(const part& p) {
        std::vector<const part*> result;
        for (const part& c : p.children) {
            if (c.what != part::kind::cache && c.what != part::kind::root && c.what != part::kind::slot) {
                if (c.what != part::kind::core || c.rank >= 0) result.push_back(&c);
                continue;
            }
            for (const part* inner : parts_in(c)) result.push_back(inner);
        }
        return result;
    }

    std::vector<size> sizes_of(const std::vector<const part*>& parts) const {
        std::vector<size> sizes;
        for (const part* p : parts) sizes.push_back(measure(*p));
        return sizes;
    }

    static std::string label(const part& p) {
        const std::string name = p.name.empty() ? std::string(to_string(p.what)) : p.name;
        return p.link > 0 ? fmt::format("{} ({:.3g} GB/s)", name, p.link / 1e9) : name;
    }

    static std::string fill_of(const part& p) {
        if (p.rank >= 0) return lighter(colour(0), 0.6);
        return p.what == part::kind::nic ? lighter(colour(3), 0.6) : "#f6f6f6";
    }
    static std::string shade(const part& p) {
        return p.what == part::kind::machine ? "#f0f0f0" : p.what == part::kind::bus_switch ? "#dfe6ee" : "#fafafa";
    }

    svg& out_;
};

class drawing {
public:
    explicit drawing(const picture& p) : p_(p), machine_(p.machine), out_(1100, 100) {
        left_ = p.stages.empty() ? 40 : 240;
        const double room = right - left_;
        root_ = tree_of(p.machine, room / 26);
        const int places = leaves(root_);
        step_ = std::min(46.0, room / places);
        double x = left_ + (room - step_ * places) / 2;
        place(root_, x);
    }

    std::string run() {
        out_.text(16, 26, p_.title, 16, svg::anchor::start, "#222", true);
        out_.text(16, 45, p_.subtitle, 12, svg::anchor::start, "#555");
        for (std::size_t s = 0; s < p_.stages.size(); ++s) band(s);
        for (int l = 0; l < machine_.depth(); ++l) rates(l);
        edges(root_);
        boxes(root_);
        double y = y_of(-1) + 40;
        const bool assumed = std::any_of(machine_.levels.begin(), machine_.levels.end(),
                                         [](const level& l) { return l.bandwidth_assumed || l.latency_assumed; });
        if (assumed) out_.text(16, y, "* assumed, not measured", 11, svg::anchor::start, "#555"), y += 18;
        for (const picture::inside& each : p_.nodes) {
            out_.text(16, y + 14, each.title, 13, svg::anchor::start, "#222", true);
            node_drawing inside(out_);
            inside.draw(*each.node, 16, y + 24);
            y += 24 + inside.measure(*each.node).height + 8;
        }
        out_.grow(y + 8);
        return out_.finish();
    }

private:
    static constexpr double top = 70, row = 90, height = 24, nic_height = 8, right = 830;

    double y_of(int level) const { return top + row * (machine_.depth() - 1 - level); }

    // Ranks side by side, a free place where children are left out, and every domain over the middle of its children.
    void place(box& b, double& x) {
        if (b.children.empty()) {
            b.x = x + step_ / 2;
            x += step_;
            return;
        }
        for (std::size_t i = 0; i < b.children.size(); ++i) {
            if (b.left_out > 0 && i + 1 == b.children.size()) x += step_;
            place(b.children[i], x);
        }
        b.x = (b.children.front().x + b.children.back().x) / 2;
    }

    // Thicker where the link is faster than the slowest one of the machine.
    double thickness(double rate) const {
        double least = rate;
        for (const level& l : machine_.levels) {
            least = std::min(least, l.bandwidth);
            for (const double each : l.rates) least = std::min(least, each);
        }
        for (const double each : machine_.nics.rates) least = std::min(least, each);
        return std::min(8.0, 1.5 + 2 * std::log10(rate / least));
    }

    void edges(const box& b) {
        if (b.level < 0) return;
        const std::string stroke = p_.loads.empty() ? "#778" : colour_of_load(p_.loads[at(b.level)].part);
        const double y = y_of(b.level) + height;
        for (const box& c : b.children) {
            if (has_nics(c)) nics(b, c, stroke);
            else out_.line(b.x, y, c.x, y_of(c.level), stroke, thickness(machine_.rate(b.level, c.number)));
            edges(c);
        }
        if (b.left_out == 0) return;
        const double gap = (b.children[b.children.size() - 2].x + b.children.back().x) / 2;
        out_.text(gap, y_of(b.level - 1) + 10, "...", 14, svg::anchor::middle, "#555");
        out_.text(gap, y_of(b.level - 1) + 24,
                  b.level == 0 ? fmt::format("+{}", b.left_out) : fmt::format("{} more", b.left_out), 10,
                  svg::anchor::middle, "#555");
    }

    bool has_nics(const box& b) const { return !machine_.nics.empty() && b.level == machine_.node_levels() - 1; }

    // A node's NICs on top of it, each with a line of its own; those on one rail have one colour in all nodes.
    void nics(const box& above, const box& node, const std::string& stroke) {
        const nic_set& all = machine_.nics;
        const int count = all.count_of(node.number);
        const double width = std::min(12.0, (step_ * leaves(node) - 4) / count), y = y_of(node.level);
        for (int i = 0; i < count; ++i) {
            const double x = node.x + (i - (count - 1) / 2.0) * width;
            const std::string paint = all.rails ? colour(i) : stroke;
            out_.line(above.x, y_of(above.level) + height, x, y - nic_height, p_.loads.empty() ? paint : stroke,
                      std::min(3.0, thickness(all.rate(all.first_of(node.number) + i))));
            out_.rect(x - width / 2 + 0.5, y - nic_height, width - 1, nic_height,
                      {.fill = lighter(all.rails ? paint : colour(3), 0.4), .stroke = "#445", .width = 0.6});
        }
    }

    void boxes(const box& b) {
        std::string name = name_of(machine_, b);
        const bool is_rank = b.level < 0;
        const double room = step_ * leaves(b) - 4;
        if (!is_rank && text_width(name) > room) name = fmt::format("{}", b.number);
        const double width = is_rank ? std::min(room, 30.0) : std::min(room, std::max(56.0, text_width(name) + 14));
        const bool in_node = b.level < machine_.node_levels();
        out_.rect(b.x - width / 2, y_of(b.level), width, height,
                  {.fill = is_rank   ? lighter(colour(0), 0.6)
                           : in_node ? "#e4e8ee"
                                     : "#fff",
                   .stroke = "#445",
                   .corner = 4});
        out_.text(b.x, y_of(b.level) + 16, name, is_rank && step_ < 26 ? 9 : 12, svg::anchor::middle);
        for (const box& c : b.children) boxes(c);
    }

    // Beside the links of a level.
    void rates(int l) {
        const level& of = machine_.levels[at(l)];
        const double y = y_of(l) + height + 20;
        out_.text(
            right + 20, y,
            fmt::format("{}: {} {}", of.name, marked(bandwidth_text(of), of.bandwidth_assumed), to_string(of.medium)),
            12, svg::anchor::start, "#222", true);
        out_.text(right + 20, y + 15, "a message takes " + marked(format_duration(of.latency), of.latency_assumed), 11,
                  svg::anchor::start, "#555");
        double below = 22;
        if (!machine_.nics.empty() && l == machine_.node_levels()) {
            const std::string text = nics_text(machine_.nics), spine = ", spine";
            const std::size_t comma = std::min(text.find(spine), text.size());
            out_.text(right + 20, y + 30, text.substr(0, comma), 11, svg::anchor::start, "#555");
            if (comma < text.size())
                out_.text(right + 20, y + 44, text.substr(comma + 2), 11, svg::anchor::start, "#555");
            below = comma < text.size() ? 50 : 37;
        }
        if (p_.loads.empty()) return;
        const picture::load& load = p_.loads[at(l)];
        out_.rect(right + 20, y + below, 100, 8, {.fill = "#e8e8e8"});
        out_.rect(right + 20, y + below, 100 * std::clamp(load.part, 0.0, 1.0), 8, {.fill = colour_of_load(load.part)});
        out_.text(right + 128, y + below + 8, load.text, 11, svg::anchor::start, "#333");
    }

    // A stage covers the links of its levels; stages that share a level share the room.
    void band(std::size_t number) {
        const picture::stage& s = p_.stages[number];
        const auto same = [&](const picture::stage& other) { return other.first == s.first && other.last == s.last; };
        const auto twins = std::count_if(p_.stages.begin(), p_.stages.end(), same);
        const auto before =
            std::count_if(p_.stages.begin(), p_.stages.begin() + static_cast<std::ptrdiff_t>(number), same);
        const double high = y_of(s.last) + height / 2 + 2, low = y_of(s.first - 1) + height / 2 - 2;
        const double part = (low - high) / static_cast<double>(twins);
        const double y = low - part * static_cast<double>(before + 1);
        const std::string paint = colour(static_cast<int>(number));
        out_.rect(16, y, right - 6, part, {.fill = lighter(paint, 0.86), .corner = 6});
        out_.rect(16, y, 6, part, {.fill = paint});
        for (std::size_t i = 0; i < s.lines.size() && 16 + 15 * static_cast<double>(i) < part; ++i)
            out_.text(30, y + 17 + 15 * static_cast<double>(i), s.lines[i], i == 0 ? 12 : 11, svg::anchor::start,
                      i == 0 ? "#222" : "#444", i == 0);
    }

    const picture& p_;
    const hierarchy& machine_;
    box root_;
    svg out_;
    double left_ = 0, step_ = 0;
};

}  // namespace

std::string draw_svg(const picture& p) { return drawing(p).run(); }

}  // namespace terrace::detail
