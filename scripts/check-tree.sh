#!/usr/bin/env bash
# Rules of the tree that no other tool checks: how long a source file may be, what nothing may
# be called, and that every shell script parses. Looks at what git tracks, and at new files that
# it does not ignore. Prints one line a fault; exit code 1 when there is one.
#
#   scripts/check-tree.sh [DIRECTORY]    a git work tree (default: this checkout)
set -euo pipefail
cd "${1:-"$(dirname "${BASH_SOURCE[0]}")/.."}"

max_lines=600
# Written by others, and taken over as it is.
vendored='^src/grampus/report/assets/'
# A part of a name that says nothing about what is inside.
empty_name='^(utils?|common|misc|managers?|helpers?)$'

mapfile -d '' -t listed < <(git ls-files -z --cached --others --exclude-standard)
files=()
for file in "${listed[@]}"; do
  # A tracked file may have been deleted; a link is checked where it points to.
  if [ -f "$file" ] && [ ! -L "$file" ] && ! [[ $file =~ $vendored ]]; then files+=("$file"); fi
done

faults=()
declare -A named=()
for file in "${files[@]}"; do
  case $file in
    *.py | *.rs | *.sh | *.js | *.css | *.j2)
      # awk counts a last line without a line end too.
      lines=$(awk 'END { print NR }' "$file")
      if [ "$lines" -gt "$max_lines" ]; then
        faults+=("$file: $lines lines, more than $max_lines. Split it by what it does.")
      fi
      # The module, and each directory that it is in.
      module=${file##*/}
      places=("${file%/*}/${module%%.*}")
      [ "${file%/*}" != "$file" ] || places=("${module%%.*}")
      directory=$file
      while [[ $directory == */* ]]; do
        directory=${directory%/*}
        places+=("$directory")
      done
      for place in "${places[@]}"; do
        if [[ ${place##*/} =~ $empty_name ]] && [ -z "${named[$place]:-}" ]; then
          named[$place]=1
          faults+=("$place: '${place##*/}' says nothing. Name it for what it holds.")
        fi
      done
      ;;
  esac
  first_line=""
  IFS= read -r -n 64 first_line <"$file" 2>/dev/null || true
  if [[ $file == *.sh || $first_line =~ ^#!.*[/[:space:]](ba)?sh([[:space:]]|$) ]]; then
    if ! said=$(bash -n -- "$file" 2>&1); then
      faults+=("$file: bash cannot parse it: ${said%%$'\n'*}")
    fi
  fi
done

# Operations begin in one place, and dry runs are the change itself (docs/adr/0044).
count() {
  local found=0
  [ ! -d "$2" ] || found=$(grep -rn --include='*.py' -- "$1" "$2" | wc -l) || true
  if [ "$found" -gt "$3" ]; then
    faults+=("$2: $found times '$1', more than $3. $4")
  fi
}
runner='Use the runner of operations.'
count 'journal\.begin(' src/grampus 1 "$runner"
count 'if dry_run:' src/grampus/cli 5 "$runner"
# What a load generator prints is read in one place, bench/drivers.
count '\["jobname"\]' src/grampus 1 'Use bench/drivers/fio_result.py.'
count 'thds:' src/grampus 1 'Use bench/drivers/sysbench_result.py.'

# A module is found by its name alone.
while IFS= read -r name; do
  faults+=("src/grampus: more than two modules are called $name. Name them for what they hold.")
done < <(
  find src/grampus -name '*.py' ! -name __init__.py ! -name model.py -printf '%f\n' 2>/dev/null |
    sort | uniq -c | awk '$1 > 2 { print $2 }'
)

# Modules of a crate import one way.
if [ -f dataplane/Cargo.toml ] && ! said=$(python3 scripts/check_crates.py 2>&1); then
  mapfile -t circles <<<"$said"
  faults+=("${circles[@]}")
fi

if [ ${#faults[@]} -gt 0 ]; then
  printf '%s\n' "${faults[@]}" | sort >&2
  echo "check-tree: ${#faults[@]} faults" >&2
  exit 1
fi
