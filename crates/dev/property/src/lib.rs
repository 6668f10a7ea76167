//! Tests of what holds for random values. [`properties!`] is written like `proptest!` of the crate
//! of that name. It draws, counts, shrinks and saves the same cases.
//!
//! The difference is the time to compile. `proptest!` makes a runner for each test: one loop over
//! the cases, and one that shrinks a case. Here the drawn values and their test hide their types
//! behind [`Trial`]. So all tests share one runner, which is compiled with this crate. [`one_of!`]
//! and [`Makes`] do the same for strategies.

mod choice;

use std::fmt;

use proptest::prelude::*;
pub use proptest::test_runner::Config;
use proptest::test_runner::{TestCaseResult, TestRunner, contextualize_config};

pub use crate::choice::{Makes, weighted};

/// Values that were drawn for a test, with the test.
pub trait Trial: fmt::Debug {
    /// Runs the test on the values.
    fn run(self: Box<Self>) -> TestCaseResult;
}

/// Strategies of trials: a test is nothing more to its runner.
pub type Trials = BoxedStrategy<Box<dyn Trial>>;

struct Drawn<T> {
    names: &'static str,
    values: T,
    test: fn(T) -> TestCaseResult,
}

impl<T: fmt::Debug> fmt::Debug for Drawn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.names)?;
        fmt::Debug::fmt(&self.values, f)
    }
}

impl<T: fmt::Debug> Trial for Drawn<T> {
    fn run(self: Box<Self>) -> TestCaseResult {
        let Self { values, test, .. } = *self;
        test(values)
    }
}

/// The strategy of a test's values, without its type.
pub fn erased<S: Strategy + 'static>(strategy: S) -> BoxedStrategy<S::Value> {
    strategy.boxed()
}

/// The trials of a test. A failure shows the values after their names.
pub fn trials<T: fmt::Debug + 'static>(
    names: &'static str,
    values: BoxedStrategy<T>,
    test: fn(T) -> TestCaseResult,
) -> Trials {
    values.prop_map(move |values| -> Box<dyn Trial> { Box::new(Drawn { names, values, test }) }).boxed()
}

/// Runs trials, those of earlier failures first. Panics with the smallest values that fail.
#[track_caller]
pub fn check(config: Config, test_name: &'static str, source_file: &'static str, trials: &Trials) {
    let mut config = contextualize_config(config);
    config.test_name = Some(test_name);
    config.source_file = Some(source_file);
    let mut runner = TestRunner::new(config);
    if let Err(error) = runner.run(trials, |trial| trial.run()) {
        panic!("{error}\n{runner}");
    }
}

/// Tests whose arguments are drawn from strategies: `fn name(argument in strategy, …) { … }`. The
/// first line may be `#![proptest_config(…)]`.
#[macro_export]
macro_rules! properties {
    (#![proptest_config($config:expr)] $(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:pat in $strategy:expr),+ $(,)?) $body:block
    )*) => {
        $(
            $(#[$attribute])*
            fn $name() {
                let values = $crate::erased(($($strategy,)+));
                let trials = $crate::trials(::core::stringify!($($argument),+), values, |($($argument,)+)| {
                    let (): () = $body;
                    ::core::result::Result::Ok(())
                });
                let name = ::core::concat!(::core::module_path!(), "::", ::core::stringify!($name));
                $crate::check($config, name, ::core::file!(), &trials);
            }
        )*
    };
    ($(#[$attribute:meta])* fn $($tests:tt)*) => {
        $crate::properties! {
            #![proptest_config($crate::Config::default())]
            $(#[$attribute])* fn $($tests)*
        }
    };
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;
    use crate::one_of;

    properties! {
        /// The values are those of the strategies, in their order.
        #[test]
        fn values_are_in_their_ranges(number in 3..9_u8, (low, mut high) in (0..4_u8, 4..9_u8)) {
            high += 1;
            prop_assume!(number != 5);
            prop_assert!((3..9).contains(&number));
            prop_assert!(low < 4 && high > 4, "{} {}", low, high);
        }
    }

    properties! {
        /// As `prop_oneof!` draws.
        #[test]
        fn a_choice_is_one_of_those_given(
            plain in one_of![Just(1_u8), 3..6_u8],
            weighted in one_of![4 => Just(1_u8), 1 => erased(2..3_u8).makes(|number| number + 7)],
        ) {
            prop_assert!([1, 3, 4, 5].contains(&plain) && [1, 9].contains(&weighted));
        }
    }

    properties! {
        #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

        fn fails_from_ten_on(number in 0..100_000_u32) {
            prop_assert!(number < 10, "too large");
        }

        fn panics_from_ten_on(number in 0..100_000_u32) {
            assert!(number < 10, "too large");
        }
    }

    #[test]
    fn a_failure_shows_the_smallest_values() {
        for test in [fails_from_ten_on, panics_from_ten_on] {
            let message = *catch_unwind(test).unwrap_err().downcast::<String>().unwrap();
            assert!(message.contains("too large") && message.contains("number = "), "{message}");
            assert!(message.contains("10,"), "{message}");
        }
    }
}
