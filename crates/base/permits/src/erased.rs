//! Work without its types.
//!
//! The runtime's code for a task is generated again for each type of work and of result. Erased
//! work has one type, whatever it does and returns. So this code is generated once.

use std::any::Any;

/// Work without its type.
pub type ErasedWork = Box<dyn FnOnce() -> ErasedResult + Send>;

/// What erased work returns. [`result_of`] gives it its type back.
pub type ErasedResult = Box<dyn Any + Send>;

/// Hides the type of work and of its result.
pub fn erased<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ErasedWork {
    Box::new(move || -> ErasedResult { Box::new(work()) })
}

/// The result of work that was [`erased()`].
///
/// # Panics
///
/// If the work had a result of another type.
pub fn result_of<T: 'static>(done: ErasedResult) -> T {
    match done.downcast::<T>() {
        Ok(done) => *done,
        Err(_) => unreachable!("erased work had a result of another type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_any_type_has_its_own_result() {
        let text = String::from("text");
        let works = [erased(move || text), erased(|| 7_u32)];
        let [text, number] = works.map(|work| work());
        assert_eq!((result_of::<String>(text), result_of::<u32>(number)), ("text".to_owned(), 7));
    }

    #[test]
    #[should_panic(expected = "a result of another type")]
    fn a_result_has_no_other_type() {
        let done = erased(|| 7_u32)();
        let _: u64 = result_of(done);
    }
}
