//! The session fuzzer, for some seconds. `scripts/fuzz-sessions` continues for hours; a failure
//! names the seed that does it again.

use posthaste_hostile::sessions::play;

const BINARY: &str = env!("CARGO_BIN_EXE_posthaste");

#[test]
fn sessions_of_random_commands_do_no_harm() {
    for seed in 1..=4 {
        // Times are judged by the script alone.
        let report = play(BINARY, seed, 400, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        println!("seed {seed}: {report:?}");
        assert!(report.encrypted > 0, "seed {seed}: no client of IMAP was inside TLS");
    }
}
