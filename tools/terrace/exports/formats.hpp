#pragma once

#include <filesystem>
#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan_data.hpp"
#include "tools/terrace/exports/call_program.hpp"

namespace terrace::detail {

/// Options that some formats need in addition to the plan.
struct export_options {
    std::vector<std::string> interfaces;  ///< of a node, in the order of its NICs; empty: eth0, eth1, ...
};

/// A file to read, and its name for messages.
struct named_text {
    std::string name, text;
};

/// The files of a call, and a note for the user; empty: none.
struct written_call {
    std::vector<std::string> texts;
    std::string note = {};
};

/// The contents of a file of a plan, without comments.
struct plan_facts {
    std::string says;                    ///< summary in words
    std::vector<std::string> lines;      ///< all facts; equal for files with the same meaning
    std::optional<plan_data> plan = {};  ///< with rules to prove, if the file has any
};

/// A format of `terrace export`, either of plans or of one call. A written call is read back and proved.
struct export_format {
    std::string_view name;         ///< value of `--to`
    std::string_view description;  ///< a line of the help
    /// Returns the text of the file. @throws usage_error if the format cannot hold this plan
    std::string (*write)(const plan_data& plan, const export_options& options) = nullptr;
    /// Reads a file. @throws input_error if the other program would refuse the file, or if it contradicts itself
    plan_facts (*read)(const named_text& file) = nullptr;
    std::string_view not_held = {};  ///< parts of a plan or call that the format cannot express
    std::string_view mark = {};      ///< text that marks files in JSON or XML; others begin with Terrace's comment
    bool has_interfaces = false;     ///< uses `export_options::interfaces`
    bool executable = false;         ///< the file is a program

    std::span<const collective> holds = {};  ///< collectives of a format of calls
    /// For a format of calls. @throws usage_error if the format cannot hold the call
    written_call (*write_call)(const plan_data& plan, collective what, std::int64_t bytes) = nullptr;
    /// Returns the program in files, also in those of other programs. @throws input_error
    call_program (*read_call)(std::span<const named_text> files) = nullptr;
    std::string_view ending = {};  ///< of a file for each rank, OUT.RANK and this ending; empty: there is one file, OUT
    std::string_view elements = {};  ///< unit of counts in the file
    std::int64_t alignment = 0;      ///< bytes for each element: messages have a multiple of this; 0: any size
};

/// Returns all formats.
std::span<const export_format> export_formats() noexcept;
/// Returns the format of a name. @throws usage_error that lists all names
const export_format& export_format_of(std::string_view name);
/// Returns the format of the file or files OUT; null if there is none, as for a plan.
const export_format* find_format(const std::filesystem::path& out);
/// Returns the files: OUT, or OUT.0, OUT.1, ... with the format's ending. @throws input_error
std::vector<named_text> read_files(const export_format& format, const std::filesystem::path& out);
/// Returns the name of a file of a call.
std::filesystem::path call_file(const export_format& format, const std::filesystem::path& out, std::size_t n);
/// Returns the first difference between two files; nothing if there is none.
std::optional<std::string> find_difference(const plan_facts& file, const plan_facts& due);

/// A line of a file that is not a comment.
struct file_line {
    std::string_view text;  ///< without the blanks around it
    int number = 0;
    const named_text* file = nullptr;

    [[noreturn]] void fail(const std::string& why) const { throw input_error(file->name, number, 0, why); }
    /// Returns the groups of `form`, by number. @throws input_error if the line does not match, with `example`
    std::vector<std::string> parts(const std::regex& form, std::string_view example) const;
    /// Returns a number in the line. @throws input_error
    std::int64_t integer(std::string_view digits, std::int64_t least, std::int64_t most) const;
};
/// Returns the lines that are neither blank nor comments (#).
std::vector<file_line> lines_of(const named_text& file);
std::vector<file_line> lines_of(named_text&&) = delete;  // lines are parts of the text

// Writers and readers of the formats, one source file for each kind. docs/reference/exports.md describes the output.
std::string plan_json(const plan_data& plan, const export_options&);
plan_facts read_plan_json(const named_text& file);
std::string simgrid_platform(const plan_data& plan, const export_options&);
plan_facts read_simgrid(const named_text& file);
std::string nic_script(const plan_data& plan, const export_options& options);
plan_facts read_nic_script(const named_text& file);
/// Returns the NIC of each rank of a node, counted from 0 in the node, for the largest node. Empty if ranks of another
/// node use other NICs.
std::vector<int> nics_by_local_rank(const hierarchy& machine);
std::string openmpi_rankfile(const plan_data& plan, const export_options&);
plan_facts read_rankfile(const named_text& file);
std::string openmpi_hostfile(const plan_data& plan, const export_options&);
plan_facts read_hostfile(const named_text& file);
std::string mpich_machinefile(const plan_data& plan, const export_options&);
plan_facts read_machinefile(const named_text& file);
std::string slurm_hostfile(const plan_data& plan, const export_options&);
plan_facts read_slurm_hostfile(const named_text& file);
std::string torchrun_lines(const plan_data& plan, const export_options&);
plan_facts read_torchrun_lines(const named_text& file);
std::string openmpi_rules(const plan_data& plan, const export_options&);
plan_facts read_openmpi_rules(const named_text& file);
std::string openmpi_han(const plan_data& plan, const export_options&);
plan_facts read_openmpi_han(const named_text& file);
std::string intel_variables(const plan_data& plan, const export_options&);
plan_facts read_intel_variables(const named_text& file);
std::string mpich_compositions(const plan_data& plan, const export_options&);
plan_facts read_mpich_compositions(const named_text& file);
/// Returns a note if `terrace verify` cannot read traces of this call, otherwise an empty text.
std::string chakra_note(const call_program& call);
written_call chakra_traces(const plan_data& plan, collective what, std::int64_t bytes);
call_program read_chakra(std::span<const named_text> files);
constexpr std::int64_t mscclpp_alignment = 16;
written_call mscclpp_plan(const plan_data& plan, collective what, std::int64_t bytes);
call_program read_mscclpp(std::span<const named_text> files);

}  // namespace terrace::detail
