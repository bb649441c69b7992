# Source this in bash or zsh on the machine without network: `. kit/env.sh`. It checks and unpacks the kit once and then
# sets PYTHONPATH, PATH and LD_LIBRARY_PATH of this shell; where something is wrong it says what, and fails.
# shellcheck shell=bash
if labcode_kit=$(python3 -B "$(dirname -- "${BASH_SOURCE[0]:-$0}")/unpack.py"); then
  eval "$labcode_kit"
  unset labcode_kit
else
  unset labcode_kit
  return 2
fi
