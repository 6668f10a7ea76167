//! A command ends without a message when the reader of its output has closed the pipe, as `head`
//! does.

use std::any::Any;
use std::process::exit;

/// The exit code of programs that a pipe without a reader stops: 128 and the number of SIGPIPE.
pub const EXIT_CODE: u8 = 128 + 13;

/// `println!` panics where the reader has left. From now on that ends the program without a word.
pub fn end_in_silence() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_closed_pipe(panic.payload()) {
            exit(EXIT_CODE.into());
        }
        report(panic);
    }));
}

fn is_closed_pipe(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe"))
}
