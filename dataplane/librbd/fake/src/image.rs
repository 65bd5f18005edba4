//! The calls of librbd that answer at once.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, slice};

use libc::{size_t, ssize_t};

use crate::control::notify_update;
use crate::rados::PoolHandle;
use crate::state::{CHANGED, State, Watch, deliver, enter, text_of};

/// An image's handle; never freed, so that its use after the end can be told.
struct Handle {
    is_open: AtomicBool,
    pool: &'static PoolHandle,
}

/// `rbd_snap_info_t`.
#[repr(C)]
struct SnapshotInfo {
    id: u64,
    size: u64,
    name: *mut c_char,
}

/// `rbd_config_option_t`.
#[repr(C)]
struct ConfigOption {
    name: *const c_char,
    value: *const c_char,
    source: c_int,
}

type WatchCallback = unsafe extern "C" fn(*mut c_void);

/// Count a call on a closed image.
pub(crate) fn is_open(state: &mut State, image: *mut c_void, function: &str) -> bool {
    // SAFETY: handles are never freed.
    let is_open = unsafe { &*image.cast::<Handle>() }.is_open.load(Ordering::SeqCst);
    if !is_open {
        state.violations.push(format!("{function} was called on a closed image"));
    }
    is_open
}

/// A call on an image: fails as told, or when the client is blocklisted.
fn on_image(
    function: &'static str,
    image: *mut c_void,
    work: impl FnOnce(&mut State) -> c_int,
) -> c_int {
    match enter(function) {
        Err(answer) => c_int::try_from(answer).unwrap_or(-libc::EIO),
        Ok(mut state) => {
            is_open(&mut state, image, function);
            if state.is_blocklisted { -libc::ESHUTDOWN } else { work(&mut state) }
        }
    }
}

fn open(
    function: &'static str,
    pool: *mut c_void,
    name: *const c_char,
    image: *mut *mut c_void,
) -> c_int {
    // SAFETY: a pool's handle and a C text.
    let (pool, name) = unsafe { (PoolHandle::at(pool), text_of(name)) };
    match enter(function) {
        Err(answer) => c_int::try_from(answer).unwrap_or(-libc::EIO),
        Ok(_) if name != "disk" => -libc::ENOENT,
        Ok(mut state) => {
            state.open_images += 1;
            state.is_decrypted = false;
            pool.open_images.fetch_add(1, Ordering::SeqCst);
            let handle = Handle { is_open: AtomicBool::new(true), pool };
            // SAFETY: the caller gives a place for a handle.
            unsafe { *image = Box::into_raw(Box::new(handle)).cast() };
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_version(major: *mut c_int, minor: *mut c_int, extra: *mut c_int) {
    // SAFETY: the caller gives three places.
    unsafe { (*major, *minor, *extra) = (1, 20, 7) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_open(
    pool: *mut c_void,
    name: *const c_char,
    image: *mut *mut c_void,
    _snapshot: *const c_char,
) -> c_int {
    open("rbd_open", pool, name, image)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_open_read_only(
    pool: *mut c_void,
    name: *const c_char,
    image: *mut *mut c_void,
    _snapshot: *const c_char,
) -> c_int {
    open("rbd_open_read_only", pool, name, image)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_close(image: *mut c_void) -> c_int {
    let answer = match enter("rbd_close") {
        Ok(_) => 0,
        Err(answer) => c_int::try_from(answer).unwrap_or(-libc::EIO),
    };
    let mut state = crate::state::state();
    // SAFETY: handles are never freed.
    let handle = unsafe { &*image.cast::<Handle>() };
    if is_open(&mut state, image, "rbd_close") {
        state.open_images -= 1;
        handle.pool.open_images.fetch_sub(1, Ordering::SeqCst);
    }
    handle.is_open.store(false, Ordering::SeqCst);
    if state.open_completions > 0 {
        state.violations.push("an image was closed with requests in flight".to_owned());
    }
    if !state.update_watches.is_empty() || !state.quiesce_watches.is_empty() {
        state.violations.push("an image was closed with a watch".to_owned());
    }
    if state.owner.as_deref() == Some("me") {
        state.owner = None;
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_get_id(image: *mut c_void, into: *mut c_char, length: size_t) -> c_int {
    on_image("rbd_get_id", image, |state| {
        let id = format!("{}\0", state.image_id);
        if id.len() > length {
            return -libc::ERANGE;
        }
        // SAFETY: the caller gives a place, with room for it.
        unsafe { ptr::copy_nonoverlapping(id.as_ptr().cast(), into, id.len()) };
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_get_size(image: *mut c_void, size_bytes: *mut u64) -> c_int {
    on_image("rbd_get_size", image, |state| {
        // SAFETY: the caller gives a place.
        unsafe { *size_bytes = state.shown_bytes() };
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_resize2(
    image: *mut c_void,
    size_bytes: u64,
    may_shrink: bool,
    progress: unsafe extern "C" fn(u64, u64, *mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    let answer = on_image("rbd_resize2", image, |state| {
        if size_bytes < state.size_bytes && !may_shrink {
            return -libc::EINVAL;
        }
        state.size_bytes = size_bytes;
        0
    });
    if answer == 0 {
        // SAFETY: the caller gives a callback for this argument.
        unsafe { progress(1, 1, argument) };
        notify_update();
    }
    answer
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_flush(image: *mut c_void) -> c_int {
    on_image("rbd_flush", image, |_| 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_is_exclusive_lock_owner(image: *mut c_void, owner: *mut c_int) -> c_int {
    on_image("rbd_is_exclusive_lock_owner", image, |state| {
        // SAFETY: the caller gives a place.
        unsafe { *owner = c_int::from(state.owner.as_deref() == Some("me")) };
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_lock_acquire(image: *mut c_void, _mode: c_int) -> c_int {
    on_image("rbd_lock_acquire", image, |state| match state.owner.as_deref() {
        None | Some("me") => {
            state.owner = Some("me".to_owned());
            0
        }
        Some(_) => -libc::EROFS,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_lock_release(image: *mut c_void) -> c_int {
    on_image("rbd_lock_release", image, |state| match state.owner.take_if(|owner| owner == "me") {
        Some(_) => 0,
        None => -libc::EINVAL,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_lock_get_owners(
    image: *mut c_void,
    mode: *mut c_int,
    owners: *mut *mut c_char,
    count: *mut size_t,
) -> c_int {
    on_image("rbd_lock_get_owners", image, |state| match &state.owner {
        None => -libc::ENOENT,
        Some(owner) => {
            let text = CString::new(owner.as_str()).map_or(ptr::null_mut(), CString::into_raw);
            // SAFETY: the caller gives places for at least one owner.
            unsafe { (*mode, *owners, *count) = (0, text, 1) };
            0
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_lock_get_owners_cleanup(owners: *mut *mut c_char, count: size_t) {
    // SAFETY: what `rbd_lock_get_owners` wrote.
    for owner in unsafe { slice::from_raw_parts(owners, count) } {
        // SAFETY: made by `rbd_lock_get_owners`, freed once.
        drop(unsafe { CString::from_raw(*owner) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_lock_break(
    image: *mut c_void,
    _mode: c_int,
    owner: *const c_char,
) -> c_int {
    // SAFETY: a C text.
    let owner = unsafe { text_of(owner) };
    on_image("rbd_lock_break", image, |state| match &state.owner {
        None => -libc::ENOENT,
        Some(held) if *held != owner => -libc::EBUSY,
        Some(_) => {
            state.owner = None;
            0
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_metadata_set(
    image: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: C texts.
    let (key, value) = unsafe { (text_of(key), text_of(value)) };
    on_image("rbd_metadata_set", image, |state| {
        state.metadata.insert(key, value);
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_metadata_get(
    image: *mut c_void,
    key: *const c_char,
    into: *mut c_char,
    length: *mut size_t,
) -> c_int {
    // SAFETY: a C text.
    let key = unsafe { text_of(key) };
    on_image("rbd_metadata_get", image, |state| {
        let Some(value) = state.metadata.get(&key) else { return -libc::ENOENT };
        // SAFETY: the caller gives a place, and says how much room there is.
        let room = unsafe { length.replace(value.len() + 1) };
        if room < value.len() + 1 {
            return -libc::ERANGE;
        }
        // SAFETY: there is room for the text and its NUL.
        unsafe {
            ptr::copy_nonoverlapping(value.as_ptr().cast(), into, value.len());
            *into.add(value.len()) = 0;
        }
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_snap_create(image: *mut c_void, name: *const c_char) -> c_int {
    // SAFETY: a C text.
    let name = unsafe { text_of(name) };
    on_image("rbd_snap_create", image, |state| {
        if state.snapshots.iter().any(|(_, taken, _)| *taken == name) {
            return -libc::EEXIST;
        }
        let id = u64::try_from(state.snapshots.len()).unwrap_or(0) + 4;
        state.snapshots.push((id, name, state.size_bytes));
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_snap_create2(
    image: *mut c_void,
    name: *const c_char,
    flags: u32,
    _progress: unsafe extern "C" fn(u64, u64, *mut c_void) -> c_int,
    _argument: *mut c_void,
) -> c_int {
    if flags != 1 {
        return -libc::EINVAL;
    }
    // SAFETY: as the caller says.
    unsafe { rbd_snap_create(image, name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_snap_remove(image: *mut c_void, name: *const c_char) -> c_int {
    // SAFETY: a C text.
    let name = unsafe { text_of(name) };
    on_image("rbd_snap_remove", image, |state| {
        let before = state.snapshots.len();
        state.snapshots.retain(|(_, taken, _)| *taken != name);
        if state.snapshots.len() < before { 0 } else { -libc::ENOENT }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_snap_list(
    image: *mut c_void,
    into: *mut c_void,
    room: *mut c_int,
) -> c_int {
    on_image("rbd_snap_list", image, |state| {
        let count = c_int::try_from(state.snapshots.len()).unwrap_or(c_int::MAX);
        // SAFETY: the caller gives a place, and says how much room there is.
        if unsafe { *room } < count + 1 {
            // SAFETY: as above.
            unsafe { *room = count + 1 };
            return -libc::ERANGE;
        }
        let end = (0, String::new(), 0);
        let mut place = into.cast::<SnapshotInfo>();
        for (id, name, size) in state.snapshots.iter().chain([&end]) {
            let text = CString::new(name.as_str()).map_or(ptr::null_mut(), CString::into_raw);
            let name = if *id == 0 { ptr::null_mut() } else { text };
            // SAFETY: there is room for each and one more.
            unsafe {
                place.write(SnapshotInfo { id: *id, size: *size, name });
                place = place.add(1);
            }
        }
        count
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_snap_list_end(listed: *mut c_void) {
    let mut place = listed.cast::<SnapshotInfo>();
    // SAFETY: the list ends at the first entry without a name; each name is freed once.
    unsafe {
        while !(*place).name.is_null() {
            drop(CString::from_raw((*place).name));
            place = place.add(1);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_compare_and_write(
    image: *mut c_void,
    offset_bytes: u64,
    length: size_t,
    compare: *const c_char,
    from: *const c_char,
    mismatch_bytes: *mut u64,
    _flags: c_int,
) -> ssize_t {
    // SAFETY: the caller gives two memories of this length.
    let (compare, from) = unsafe {
        let compare = slice::from_raw_parts(compare.cast::<u8>(), length);
        (compare, slice::from_raw_parts(from.cast::<u8>(), length))
    };
    let answer = on_image("rbd_compare_and_write", image, |state| {
        let mut there = vec![0; length];
        let at = state.place(offset_bytes);
        state.read(at, &mut there);
        let mut pairs = (offset_bytes..).zip(there.iter().zip(compare));
        if let Some((at, _)) = pairs.find(|(_, (is, was))| is != was) {
            // SAFETY: the caller gives a place.
            unsafe { *mismatch_bytes = at };
            -libc::EILSEQ
        } else {
            state.write(at, from);
            c_int::try_from(length).unwrap_or(c_int::MAX)
        }
    });
    ssize_t::try_from(answer).unwrap_or(-1)
}

/// `rbd_encryption_luks_format_options_t`, and the end of `rbd_encryption_luks2_format_options_t`.
#[repr(C)]
struct Passphrase {
    text: *const c_char,
    size: size_t,
}

/// `rbd_encryption_luks2_format_options_t`.
#[repr(C)]
struct Luks2Options {
    _algorithm: c_int,
    passphrase: Passphrase,
}

/// `rbd_encryption_spec_t`.
#[repr(C)]
struct EncryptionSpec {
    format: c_int,
    options: *const c_void,
    options_size: size_t,
}

fn load_encryption(function: &'static str, image: *mut c_void, given: &Passphrase) -> c_int {
    // SAFETY: the caller gives a text of this length.
    let given = unsafe { slice::from_raw_parts(given.text.cast::<u8>(), given.size) };
    on_image(function, image, |state| match &state.passphrase {
        _ if state.is_decrypted => -libc::EEXIST,
        None => -libc::EINVAL,
        Some(passphrase) if passphrase.as_bytes() != given => -libc::EPERM,
        Some(_) => {
            state.is_decrypted = true;
            0
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_encryption_load(
    image: *mut c_void,
    format: c_int,
    options: *const c_void,
    options_size: size_t,
) -> c_int {
    if (format, options_size) != (1, size_of::<Luks2Options>()) {
        return -libc::EINVAL;
    }
    // SAFETY: of this format and size the options are such.
    let options = unsafe { &*options.cast::<Luks2Options>() };
    load_encryption("rbd_encryption_load", image, &options.passphrase)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_encryption_load2(
    image: *mut c_void,
    specs: *const c_void,
    count: size_t,
) -> c_int {
    // SAFETY: the caller gives at least one.
    let spec = unsafe { &*specs.cast::<EncryptionSpec>() };
    if (count, spec.format, spec.options_size) != (1, 2, size_of::<Passphrase>()) {
        return -libc::EINVAL;
    }
    // SAFETY: of this format and size the options are such.
    let passphrase = unsafe { &*spec.options.cast::<Passphrase>() };
    load_encryption("rbd_encryption_load2", image, passphrase)
}

/// Make a watch in one of the lists.
fn watch(
    function: &'static str,
    image: *mut c_void,
    callbacks: [Option<WatchCallback>; 2],
    argument: *mut c_void,
    id: *mut u64,
    list: impl FnOnce(&mut State) -> &mut Vec<Watch>,
) -> c_int {
    on_image(function, image, |state| {
        state.watches_made += 1;
        let made = Watch { id: state.watches_made, callbacks, argument };
        // SAFETY: the caller gives a place.
        unsafe { *id = made.id };
        list(state).push(made);
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_update_watch(
    image: *mut c_void,
    id: *mut u64,
    callback: WatchCallback,
    argument: *mut c_void,
) -> c_int {
    let callbacks = [Some(callback), None];
    watch("rbd_update_watch", image, callbacks, argument, id, |state| &mut state.update_watches)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_update_unwatch(_image: *mut c_void, id: u64) -> c_int {
    if let Ok(mut state) = enter("rbd_update_unwatch") {
        state.update_watches.retain(|watch| watch.id != id);
    }
    drop(deliver());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_quiesce_watch(
    image: *mut c_void,
    quiesce: WatchCallback,
    unquiesce: WatchCallback,
    argument: *mut c_void,
    id: *mut u64,
) -> c_int {
    let callbacks = [Some(quiesce), Some(unquiesce)];
    watch("rbd_quiesce_watch", image, callbacks, argument, id, |state| &mut state.quiesce_watches)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_quiesce_complete(image: *mut c_void, id: u64, answer: c_int) {
    on_image("rbd_quiesce_complete", image, |state| {
        if !state.quiesce_watches.iter().any(|watch| watch.id == id) {
            state.violations.push("a quiesce of no watch was completed".to_owned());
        }
        state.quiesce_answers.push(answer);
        0
    });
    CHANGED.notify_all();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_quiesce_unwatch(_image: *mut c_void, id: u64) -> c_int {
    if let Ok(mut state) = enter("rbd_quiesce_unwatch") {
        state.quiesce_watches.retain(|watch| watch.id != id);
    }
    drop(deliver());
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_get_features(image: *mut c_void, features: *mut u64) -> c_int {
    on_image("rbd_get_features", image, |_| {
        // SAFETY: the caller gives a place. Layering, exclusive lock, object map, fast diff, deep
        // flatten: what images have by default.
        unsafe { *features = 0x3d };
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_config_image_list(
    image: *mut c_void,
    options: *mut ConfigOption,
    count: *mut c_int,
) -> c_int {
    on_image("rbd_config_image_list", image, |state| {
        let is_off = state.settings.iter().any(|setting| setting == "rbd_cache=false");
        let listed = [
            (c"rbd_op_threads", c"1"),
            (c"rbd_cache", if is_off { c"false" } else { c"true" }),
            (c"rbd_persistent_cache_mode", c"disabled"),
        ];
        // SAFETY: the caller gives a place, and room for so many entries.
        let room =
            unsafe { slice::from_raw_parts_mut(options, usize::try_from(*count).unwrap_or(0)) };
        // SAFETY: as above.
        unsafe { *count = 3 };
        if room.len() < listed.len() {
            return -libc::ERANGE;
        }
        for (entry, (name, value)) in room.iter_mut().zip(listed) {
            *entry = ConfigOption { name: name.as_ptr(), value: value.as_ptr(), source: 0 };
        }
        state.open_completions += 1; // a list is open until it is cleaned up
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rbd_config_image_list_cleanup(_options: *mut ConfigOption, _count: c_int) {
    if let Ok(mut state) = enter("rbd_config_image_list_cleanup") {
        state.open_completions -= 1;
    }
}
