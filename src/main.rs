//! The executable; the code is in the library.

use std::process::ExitCode;

use butler_base::secret::ZeroingAllocator;

#[global_allocator]
static ALLOCATOR: ZeroingAllocator = ZeroingAllocator;

fn main() -> ExitCode {
    butler_runner::cli::main()
}
