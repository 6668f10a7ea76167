//! The `posthaste-load` command: see the library.

fn main() -> std::process::ExitCode {
    posthaste_load::cli::main()
}
