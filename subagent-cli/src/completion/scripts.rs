//! The scripts for the shells. Each calls only `subagent __complete`, so old scripts complete new
//! commands. A script calls the `subagent` in the PATH or the program that printed it, never a
//! typed `./subagent`, which a project could provide. It must not evaluate candidates.

use super::shell::Shell;
use super::{COMMAND, FILES, FOLDERS};

/// Returns the script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    let template = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        Shell::Fish => FISH,
    };
    let program = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    let program = shell_words::quote(program.as_deref().unwrap_or("subagent")).into_owned();
    let script = template.replace("COMMAND", COMMAND).replace("FILES", FILES).replace("FOLDERS", FOLDERS);
    script.replace("PROGRAM", &program)
}

const BASH: &str = r#"# Completions of subagent for bash.
_subagent() {
    local line program upto=$((COMP_CWORD - 1))
    program=$(type -P subagent) || program=PROGRAM
    # Behind a `=` that is the word at the cursor there is an empty one.
    [[ ${COMP_WORDS[COMP_CWORD]} == [=:] ]] && upto=$COMP_CWORD
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            FILES) compopt -o default 2>/dev/null ;;
            FOLDERS) compopt -o dirnames 2>/dev/null ;;
            *) COMPREPLY+=("$line") ;;
        esac
    done < <("$program" COMMAND bash "${COMP_WORDS[@]:1:upto}" "$2" 2>/dev/null)
}
complete -F _subagent subagent
"#;

const ZSH: &str = r#"#compdef subagent
# Completions of subagent for zsh.
_subagent() {
    local line value program=PROGRAM
    local -a values shown
    program=${commands[subagent]:-$program}
    for line in "${(@f)$("$program" COMMAND zsh "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
        case $line in
            '') ;;
            FILES) compset -P '*='; _files ;;
            FOLDERS) compset -P '*='; _files -/ ;;
            *)
                value=${line%%$'\t'*}
                values+=("$value")
                [[ $line == *$'\t'* ]] && shown+=("$value  -- ${line#*$'\t'}") || shown+=("$value")
                ;;
        esac
    done
    (( $#values )) && compadd -V subagent -l -d shown -a values
}
if [ "$funcstack[1]" = "_subagent" ]; then
    _subagent "$@"
elif (( $+functions[compdef] )); then
    compdef _subagent subagent
fi
"#;

const FISH: &str = r#"# Completions of subagent for fish.
function __subagent_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (command -s subagent; or echo PROGRAM)
    for line in ($program[1] COMMAND fish $words[2..-1] "$current" 2>/dev/null)
        switch $line
            case FILES
                __fish_complete_path "$current"
            case FOLDERS
                __fish_complete_directories "$current" ''
            case '*'
                echo $line
        end
    end
end
complete -c subagent -f -k -a '(__subagent_complete)'
"#;
