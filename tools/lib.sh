# For tools/demo and tools/test: sourced by bash at the root of the tree.

say() { printf '\n== %s\n' "$*"; }
show() { printf '+ %s\n' "$*"; "$@"; }

# setup DIRECTORY [MESON OPTION ...]: where it is not set up yet.
setup() {
    local directory=$1 log again=()
    [ ! -f "$directory/build.ninja" ] || return 0
    shift
    log=$(mktemp)
    [ ! -d "$directory/meson-private" ] || again=(--wipe) # an earlier setup was cut off
    echo "+ meson setup $directory $*"
    if ! meson setup "${again[@]}" "$directory" "$@" < /dev/null > "$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# compile DIRECTORY [TARGET ...]: where nobody watches, ten lines of progress and the whole of what failed.
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
