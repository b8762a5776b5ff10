# Functions for scripts that source this file in the root of the tree.

# Build options of several scripts, so tools/test can use the build of tools/demo. They halve the compile time: all
# files of a library or program are one unit, and the debug information contains only line numbers. -Wsubobject-linkage
# is wrong for such units: it treats the files that they include as headers.
one_unit=(-Dunity=on -Dunity_size=100)
one_unit_arguments="-g1 -Wno-subobject-linkage"
shared_build=(-Ddebug=false "${one_unit[@]}" "-Dcpp_args=$one_unit_arguments")

say() { printf '\n== %s\n' "$*"; }
show() { printf '+ %s\n' "$*"; "$@"; }

# Makes a virtual environment of Python with these packages, unless it exists: get_python DIRECTORY PACKAGE ...
get_python() {
    [ ! -e "$1/installed" ] || return 0
    show python3 -m venv "$1" && show "$1/bin/pip" install -q "${@:2}" && touch "$1/installed"
}

# Sets up a build directory, unless it is set up: setup DIRECTORY [MESON OPTION ...]
setup() {
    local directory=$1 log again=()
    [ ! -f "$directory/build.ninja" ] || return 0
    shift
    [ ! -d "$directory/meson-private" ] || again=(--wipe) # an earlier setup was cut off
    echo "+ meson setup $directory $*"
    log=$(meson setup "${again[@]}" "$directory" "$@" < /dev/null 2>&1) || { printf '%s\n' "$log" >&2; return 1; }
}

# Compiles: compile DIRECTORY [TARGET ...]. Without a terminal it prints ten lines of progress, and errors in full.
compile() {
    local directory=$1
    local log=$directory/build.log
    echo "+ ninja -C $*"
    if [ -t 1 ]; then
        ninja -C "$@"
    elif ! ninja -C "$@" < /dev/null 2>&1 | tee "$log" | awk -F'[][/]' '
        /^\[[0-9]+\/[0-9]+\]/ && int(10 * $2 / $3) > tenth { tenth = int(10 * $2 / $3); print "  " $2 "/" $3; fflush() }'; then
        grep -v '^\[[0-9]*/[0-9]*\] ' "$log" >&2 || true
        return 1
    fi
}
