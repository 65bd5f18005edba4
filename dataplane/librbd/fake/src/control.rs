//! What tests tell the library to do.

use std::ffi::{c_char, c_void};
use std::sync::PoisonError;

use crate::state::{CHANGED, Watch, call_back, deliver, post, state, text_of};

/// Let every watcher know of a change, on the library's thread.
pub(crate) fn notify_update() {
    let watches = state().update_watches.clone();
    tell(watches, 0);
}

/// Call the callback number `which` of each watch, on the library's thread.
fn tell(watches: Vec<Watch>, which: usize) {
    post(Box::new(move || {
        for watch in watches {
            // As Ceph's own: once a watch has been ended, its callback neither runs nor begins.
            let _delivering = deliver();
            if !state().is_watched(watch.id) {
                continue;
            }
            let argument: *mut c_void = watch.argument;
            if let Some(Some(callback)) = watch.callbacks.get(which) {
                // SAFETY: the binding gave this callback with this argument.
                call_back(|| unsafe { callback(argument) });
            }
        }
    }));
}

/// Carry out a command, a word and what belongs to it:
///
/// - `fail FUNCTION ANSWER`: answer the next call of it so (after other such answers). Of a
///   request, a negative answer arrives later, and a positive errno refuses the call itself; of a
///   read of pairs, a positive number gives none and tells of more.
/// - `hold`, `release`: requests wait, and go on.
/// - `blocklist`: this client is shut out.
/// - `owner ADDRESS`: another client takes the lock.
/// - `size BYTES`: another client resizes the image.
/// - `id TEXT`: the image has this id.
/// - `luks TEXT`: the image was formatted with this passphrase.
/// - `quiesce`: another client is about to take a snapshot; the answer is the handler's.
/// - `unquiesce`: it has taken it.
/// - `append NAME TEXT`: another client adds to an object of the default namespace, making it if it
///   is not there.
/// - `full ERRNO`: there is no space for objects, and this says so; 0 for enough.
/// - `count FUNCTION`: how often it was called.
/// - `setting KEY=VALUE`: whether it was set.
/// - `violations`: how many there were.
/// - `open`: how many connections, pools, images, completions and operations there are.
/// - `shut-down`: waits until there is no connection.
///
/// # Safety
/// `command` ends in NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_control(command: *const c_char) -> i64 {
    // SAFETY: as the caller says.
    let command = unsafe { text_of(command) };
    let (verb, rest) = command.split_once(' ').unwrap_or((&command, ""));
    let mut state = state();
    match verb {
        "fail" => {
            let (function, answer) = rest.split_once(' ').unwrap_or((rest, "-5"));
            let answers = state.failures.entry(function.to_owned()).or_default();
            answers.push(answer.parse().unwrap_or(-5));
        }
        "hold" => state.is_held = true,
        "release" => {
            state.is_held = false;
            CHANGED.notify_all();
        }
        "blocklist" => state.is_blocklisted = true,
        "owner" => state.owner = Some(rest.to_owned()),
        "size" => {
            state.size_bytes = rest.parse().unwrap_or(0);
            drop(state);
            notify_update();
        }
        "id" => rest.clone_into(&mut state.image_id),
        "luks" => state.passphrase = Some(rest.to_owned()),
        "quiesce" => {
            let (watches, before) = (state.quiesce_watches.clone(), state.quiesce_answers.len());
            let expected = before + watches.len();
            tell(watches, 0);
            while state.quiesce_answers.len() < expected {
                state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            return state.quiesce_answers.last().copied().unwrap_or(0).into();
        }
        "unquiesce" => {
            let watches = state.quiesce_watches.clone();
            tell(watches, 1);
        }
        "append" => {
            let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let object = state.objects.entry((String::new(), name.to_owned())).or_default();
            object.bytes.extend_from_slice(text.as_bytes());
        }
        "full" => state.full_errno = rest.parse().unwrap_or(libc::ENOSPC),
        "count" => return state.calls.get(rest).copied().unwrap_or(0),
        "setting" => return i64::from(state.settings.iter().any(|setting| setting == rest)),
        "violations" => return i64::try_from(state.violations.len()).unwrap_or(i64::MAX),
        "shut-down" => {
            while state.open_clusters > 0 {
                state = CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        "open" => {
            let things = [state.open_clusters, state.open_pools, state.open_images];
            let operations = state.open_completions + state.open_operations;
            return things.iter().sum::<i64>() + operations;
        }
        _ => return -1,
    }
    0
}
