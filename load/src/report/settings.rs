//! What a command line came to, setting by setting, defaults included: no flag can be forgotten in a
//! result, since nobody lists them.

use std::ffi::OsString;

use clap::{ArgMatches, Command};

use super::document::Settings;

/// Flags that say where results go or how a person asks, not what is sent.
const NOT_OF_THE_WORKLOAD: [&str; 6] = ["json", "hdr", "html", "seed", "help", "version"];

/// The settings of the subcommand that was chosen. Flags that are off are left out.
pub(crate) fn settings(command: &Command, matches: &ArgMatches) -> Settings {
    let Some((name, matches)) = matches.subcommand() else { return Settings::new() };
    let arguments = command.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
    let set = arguments.filter(|argument| !NOT_OF_THE_WORKLOAD.contains(&argument.get_id().as_str())).filter_map(|argument| {
        let values = matches.try_get_raw(argument.get_id().as_str()).ok().flatten()?;
        let value = values.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",");
        let name = argument.get_long().unwrap_or_else(|| argument.get_id().as_str());
        (value != "false").then(|| (name.to_owned(), value))
    });
    set.collect()
}

/// A command line as a shell reads it.
pub(crate) fn command_line(words: &[OsString]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=%@+,".contains(c);
    let quote = |word: &str| {
        if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let given = words.iter().skip(1).map(|word| quote(&word.to_string_lossy()));
    // The program by its name, wherever it lies.
    std::iter::once("braid-load".to_owned()).chain(given).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Args;

    use super::*;

    fn of(words: &[&str]) -> Settings {
        let command = Args::command();
        let matches = command.clone().get_matches_from([&["braid-load"], words].concat());
        settings(&command, &matches)
    }

    #[test]
    fn settings_hold_defaults_and_what_was_given_and_no_output() {
        let settings = of(&["run", "--late", "5%", "--json", "--seed", "7", "--hdr", "x"]);
        assert_eq!(settings.get("late").map(String::as_str), Some("5%"));
        assert_eq!(settings.get("connections").map(String::as_str), Some("8"));
        assert!(["json", "hdr", "html", "seed", "daily"].iter().all(|name| !settings.contains_key(*name)), "{settings:?}");
        assert_eq!(of(&["run", "--daily"]).get("daily").map(String::as_str), Some("true"));
        assert_eq!(of(&["replay", "a.gz"]).get("file").map(String::as_str), Some("a.gz"));
    }

    #[test]
    fn a_command_line_is_quoted_where_a_shell_would_read_it_otherwise() {
        let words = ["/some/where/braid-load", "run", "--rate", "10k..20k/30s", "--key", "it's hot", ""].map(OsString::from);
        assert_eq!(command_line(&words), r"braid-load run --rate 10k..20k/30s --key 'it'\''s hot' ''");
    }
}
