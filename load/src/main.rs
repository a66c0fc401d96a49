//! The program `braid-load`; all it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(braid_load::main(std::env::args_os(), &mut std::io::stdout()))
}
