//! The machine that a result was measured on, as far as it decides how fast things are.
//!
//! Names no user, host or address: a result may be published.

use std::fs;

use serde::{Deserialize, Serialize};

/// What the numbers of a run hang on. What can't be found out is empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: String,
    /// Processors that the system has.
    pub(crate) cores: u64,
    /// Processors that the generator may use, as a list: `1`, `0-3`.
    pub(crate) generator_cores: String,
    pub(crate) memory_bytes: u64,
    pub(crate) os: String,
    pub(crate) kernel: String,
    pub(crate) arch: String,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        Machine {
            cpu: value(&processors, "model name", ':').to_owned(),
            cores: processors.lines().filter(|line| line.starts_with("processor")).count() as u64,
            generator_cores: value(&read("/proc/self/status"), "Cpus_allowed_list", ':').to_owned(),
            memory_bytes: kibibytes(value(&read("/proc/meminfo"), "MemTotal", ':')),
            os: value(&read("/etc/os-release"), "PRETTY_NAME", '=').trim_matches('"').to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }

    /// Names and values, for a person and for comparing.
    pub(crate) fn rows(&self) -> [(&'static str, String); 7] {
        [
            ("cpu", self.cpu.clone()),
            ("cores", self.cores.to_string()),
            ("generator cores", self.generator_cores.clone()),
            ("memory", format!("{:.1} GiB", self.memory_bytes as f64 / f64::from(1 << 30))),
            ("os", self.os.clone()),
            ("kernel", self.kernel.clone()),
            ("arch", self.arch.clone()),
        ]
    }
}

/// What stands behind `name` and the separator on the first line that begins with it.
fn value<'t>(text: &'t str, name: &str, separator: char) -> &'t str {
    let rest = text.lines().filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(separator)).next();
    rest.unwrap_or_default().trim()
}

fn kibibytes(text: &str) -> u64 {
    text.trim_end_matches("kB").trim().parse::<u64>().map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_what_the_kernel_prints() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.5GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(value(cpuinfo, "model name", ':'), "Some CPU @ 2.5GHz");
        assert_eq!(kibibytes(value("MemTotal:       24565184 kB\n", "MemTotal", ':')), 24_565_184 * 1024);
        assert_eq!(value("PRETTY_NAME=\"Debian GNU/Linux 12\"\n", "PRETTY_NAME", '=').trim_matches('"'), "Debian GNU/Linux 12");
        assert_eq!((value("", "model name", ':'), kibibytes("")), ("", 0));
    }
}
