//! The fuzz targets of this crate over their committed seeds and thousands of changes of them.

mod targets;

use posthaste_testkit::fuzz_seeds;

#[test]
fn any_bytes_are_a_message() {
    fuzz_seeds("message", 2_000, targets::message);
}

#[test]
fn any_bytes_are_a_record_or_refused() {
    fuzz_seeds("summary", 5_000, targets::summary);
}
