//! The program `braid-load`; all it does is in the library.

use std::process::ExitCode;

/// Bodies of a hundred kilobytes come and go by the thousand a second; the system's allocator gives
/// each back to the kernel and faults it in again.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(braid_load::main(std::env::args_os(), &mut std::io::stdout()))
}
