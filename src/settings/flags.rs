//! The table of settings, and the command line that is made of it.

use clap::{Arg, ArgAction, Command};

use crate::{admin, lower_promise};

/// One setting: its flag is `--name`, its variable `BRAID_NAME`, its key in the file `name`.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) default: Option<&'static str>,
    value: &'static str,
    help: &'static str,
}

/// A switch is given without a value, and means `true`.
const SWITCH: &str = "";

const fn setting(name: &'static str, default: Option<&'static str>, value: &'static str, help: &'static str) -> Setting {
    Setting { name, default, value, help }
}

pub(super) const SETTINGS: &[Setting] = &[
    setting("listen", Some("127.0.0.1:7070"), "ADDR", "Address and port to serve (braid query: 127.0.0.1:7071)"),
    setting("store", Some("embedded"), "STORE", "Where blocks are kept: embedded, dynamodb, cql, or memory (nothing survives the process)"),
    setting("data-dir", Some("./braid-data"), "DIR", "Directory of the embedded store"),
    setting("cql-nodes", Some("127.0.0.1:9042"), "ADDRS", "Nodes of ScyllaDB or Cassandra to begin with, HOST:PORT parted by commas"),
    setting("cql-keyspace", Some("braid"), "NAME", "Keyspace, made by `braid store init`"),
    setting("cql-datacenter", None, "NAME", "Data centre that requests stay in"),
    setting(
        "cql-quorum",
        Some("local"),
        "SCOPE",
        "Whose majority answers: local (the data centre's), or global; the same on every node of Braid",
    ),
    setting("cql-user", None, "NAME", "User of the cluster; needs cql-password-file"),
    setting("cql-password-file", None, "FILE", "File with that user's password"),
    setting(
        "cql-tls-ca",
        None,
        "FILE",
        "Encrypt, and trust the certificates in this PEM file; those of nodes must name their IP addresses",
    ),
    setting("cql-tls-cert", None, "FILE", "PEM file with Braid's own certificate, where the cluster asks for one"),
    setting("cql-tls-key", None, "FILE", "PEM file with its key"),
    setting("cql-in-flight", Some("256"), "COUNT", "Reads, and writes, under way for each node of the cluster; further ones wait"),
    setting("cql-speculate", Some("200ms"), "TIME", "A read without an answer after this long is also sent to another node; or off"),
    setting("cql-replication", Some("3"), "COPIES", "store init: copies in every data centre, or DC:COPIES parted by commas"),
    setting("cql-compaction", Some("time-window"), "KIND", "store init: how the engine compacts: time-window, size-tiered or leveled"),
    setting("cql-window", Some("1d"), "TIME", "store init: width of a window of time-window compaction"),
    setting("dynamodb-endpoint", None, "URL", "Where DynamoDB is; else by the AWS SDK's own settings, as are region and credentials"),
    setting("dynamodb-table", Some("braid"), "NAME", "Its table"),
    setting(
        "dynamodb-ttl",
        None,
        "TIME",
        "Blocks may be deleted so long after their last event and their writing; longer than any retention",
    ),
    setting("dynamodb-billing", Some("on-demand"), "MODE", "braid store init: on-demand, or READ:WRITE units per second"),
    setting("dynamodb-recovery", Some("false"), SWITCH, "braid store init: turn point-in-time recovery on"),
    setting("dynamodb-tags", None, "TAGS", "braid store init: tags of a new table, such as team=metrics,stage=test"),
    setting("auto-create", Some("true"), "BOOL", "Whether the first write to a namespace makes it"),
    setting(
        "linger",
        Some("auto"),
        "TIME",
        "How long events gather for one write to a partition that requests share; off, or auto: 20ms on dynamodb, off elsewhere",
    ),
    setting("auth-token-file", None, "FILE", "File with the token that requests must carry"),
    setting("insecure", Some("false"), SWITCH, "Serve an address other than loopback without a token"),
    setting("refresh", Some("1s"), "TIME", "How often the catalog is read"),
    setting("compaction", Some("true"), "BOOL", "Whether small blocks are merged in the background (embedded store)"),
    setting("engine-compaction", Some("false"), "BOOL", "The same in other stores, where it trades write units for read units"),
    setting("heat", Some("on"), "MODE", "Whether this node may change layouts by heat: on, dry-run or off"),
    setting("heat-cool-down", Some("5m"), "TIME", "How long load must have been low before N shrinks"),
    setting("archive", Some("true"), "BOOL", "Whether this node archives and drops what namespaces say is due"),
    setting("grace", Some("60s"), "TIME", "Of a new catalog: how long what is replaced still stands; reads and writes may take half of it"),
    setting("inflight-bytes", Some("67108864"), "BYTES", "Bytes of requests being written; beyond it: 503"),
    setting("queries", Some("64"), "COUNT", "Reads being answered; beyond it: 503"),
    setting("connections", Some("4096"), "COUNT", "Connections held open; further ones wait"),
    setting("stall", Some("30s"), "TIME", "A client that makes no progress for this long is cut off"),
    setting("drain", Some("30s"), "TIME", "At SIGTERM: how long requests may take to finish"),
    setting("drain-notice", None, "TIME", "At SIGTERM: how long to go on serving before that, not ready, so that a balancer lets go"),
    setting("log", Some("info"), "FILTER", "What is logged: error, warn, info, debug, or a filter such as braid_ingest=debug"),
    setting("log-format", Some("text"), "FORMAT", "How it is logged, on standard error: text or json"),
];

/// The command line.
pub(crate) fn command() -> Command {
    let base = Command::new("braid")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Write-sharded time-series ingest with verified reads")
        .after_help(admin::help() +
            "\nWithout a command both tiers are served on one port, over a store on local disk.\n\n\
             Each setting is taken from its flag, else from the variable BRAID_<NAME>, else from the file, else its default.\n\n\
             Examples:\n  braid\n  braid --listen 127.0.0.1:7070 --data-dir ./braid-data --store embedded\n  braid config --config braid.toml",
        )
        .arg(Arg::new("config").long("config").env("BRAID_CONFIG").value_name("FILE").global(true).help("TOML file with settings"))
        .subcommand(Command::new("ingest").about("Serve the ingest tier alone"))
        .subcommand(Command::new("query").about("Serve the query tier alone"))
        .subcommand(archive())
        .subcommand(verify())
        .subcommand(store())
        .subcommand(Command::new("ready").about("Ask the node that listens here whether it is ready; fails where not"))
        .subcommand(Command::new("config").about("Print the settings in force and where each came from"));
    SETTINGS.iter().fold(base, |command, setting| command.arg(arg(setting)))
}

fn archive() -> Command {
    let once = Arg::new("once").long("once").action(ArgAction::SetTrue).help("Archive and drop what is due now, then end");
    let dry =
        Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Say what would be archived and dropped, and change nothing");
    Command::new("archive")
        .about("Archive what namespaces say is due, without serving (embedded store: while no server runs)")
        .arg(once)
        .arg(dry)
}

fn verify() -> Command {
    let namespace = Arg::new("namespace").long("namespace").value_name("NAME").help("The one to audit [default: all]");
    let fix = Arg::new("fix")
        .long("fix")
        .action(ArgAction::SetTrue)
        .help("Delete orphaned files, and have blocks that nobody reads archived again");
    let about =
        "Audit namespaces: every block and file sound, nothing orphaned; exit code 1 where not (embedded store: while no server runs)";
    Command::new("verify").about(about).arg(namespace).arg(fix)
}

/// `braid store …`: what is done to a store while no node runs.
fn store() -> Command {
    let init = Command::new("init").about("Make what the store needs before its first use: directory, tables; what is there stays");
    Command::new("store")
        .about("Prepare or repair the store")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([init, lower_promise::command()])
}

fn arg(setting: &'static Setting) -> Arg {
    let default = setting.default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .env(variable(setting.name))
        .hide_env(true)
        .global(true)
        .action(ArgAction::Set)
        .help(format!("{}{default}", setting.help));
    if setting.value == SWITCH {
        arg.num_args(0..=1).require_equals(true).default_missing_value("true").hide_possible_values(true)
    } else {
        arg.value_name(setting.value)
    }
}

/// The name of a setting's environment variable, `'static` because the table is.
fn variable(name: &'static str) -> clap::builder::OsStr {
    format!("BRAID_{}", name.to_uppercase().replace('-', "_")).into()
}
