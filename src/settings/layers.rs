//! The layers that settings are read from, and which of them each value came from.

use std::collections::BTreeMap;
use std::fmt;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::flags::SETTINGS;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// The TOML file of this path.
    File(String),
    /// Nowhere else.
    Default,
}

/// Values by name, unchecked, each from the first layer that has it.
#[derive(Debug)]
pub(crate) struct Layers {
    values: BTreeMap<&'static str, (String, Source)>,
    faults: Vec<String>,
}

impl Layers {
    /// Reads the command line, the environment and the file that they name.
    pub(crate) fn read(matches: &ArgMatches) -> Layers {
        let command = matches.subcommand_name().unwrap_or_default();
        let matches = innermost(matches);
        let (path, mut faults) = (matches.get_one::<String>("config"), Vec::new());
        let file = path.map(|path| (path, read_file(path, &mut faults)));
        let mut values = BTreeMap::new();
        for setting in SETTINGS {
            let given = matches.get_one::<String>(setting.name).map(|value| {
                let flag = matches.value_source(setting.name) == Some(ValueSource::CommandLine);
                (value.clone(), if flag { Source::Flag } else { Source::Environment })
            });
            let filed = || file.as_ref().and_then(|(path, table)| Some((table.get(setting.name)?.clone(), Source::File((*path).clone()))));
            let default = if (command, setting.name) == ("query", "listen") { Some("127.0.0.1:7071") } else { setting.default };
            if let Some(found) = given.or_else(filed).or_else(|| Some((default?.to_owned(), Source::Default))) {
                values.insert(setting.name, found);
            }
        }
        Layers { values, faults }
    }

    /// A setting's value and source, if any layer has it.
    pub(crate) fn get(&self, name: &str) -> Option<(&str, &Source)> {
        self.values.get(name).map(|(value, source)| (value.as_str(), source))
    }

    /// Faults of the layers themselves.
    pub(crate) fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// What the last of nested commands was given: settings may stand behind any of them.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

/// The file's values as text. A file that can't be read, a name that is no setting and a value
/// that is neither text, number nor boolean are faults.
fn read_file(path: &str, faults: &mut Vec<String>) -> BTreeMap<String, String> {
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let table = match read.and_then(|text| text.parse::<toml::Table>().map_err(|error| error.to_string())) {
        Ok(table) => table,
        Err(error) => {
            faults.push(format!("config: {path}: {error}"));
            return BTreeMap::new();
        }
    };
    let mut values = BTreeMap::new();
    for (name, value) in table {
        match value {
            _ if !SETTINGS.iter().any(|setting| setting.name == name) => faults.push(format!("config: {path}: there is no setting {name}")),
            toml::Value::String(text) => drop(values.insert(name, text)),
            toml::Value::Integer(number) => drop(values.insert(name, number.to_string())),
            toml::Value::Boolean(truth) => drop(values.insert(name, truth.to_string())),
            other => faults.push(format!("config: {path}: {name} is a {}", other.type_str())),
        }
    }
    values
}

impl fmt::Display for Layers {
    /// The settings in force as a TOML file, each with where it came from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, (value, source)) in &self.values {
            writeln!(f, "{:<40} # {source}", format!("{name} = {}", toml::Value::from(value.as_str())))?;
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Environment => f.write_str("environment"),
            Source::File(path) => f.write_str(path),
            Source::Default => f.write_str("default"),
        }
    }
}
