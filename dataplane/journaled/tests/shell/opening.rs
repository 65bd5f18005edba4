//! Opening, replaying, and whether that is needed.

use std::sync::Arc;

use grampus_blockdev::DeviceError;
use grampus_journal::{
    Aside, Config, Damage, Epoch, Failure, FormatError, Log, Progress, RecoveryError, Ring,
    VolumeId,
};
use grampus_journaled::{JournaledDevice, OpenError, Options, needs_replay, open, replay};

use crate::user::{CACHE, CONFIG, LAZY, VOLUME, flush, opened, read, try_open, write};
use crate::world::{Kind, PATIENCE, Port, RING, World};

const SIZE: usize = 1 << 20;

fn replayed(port: &Port, config: Config, local: bool) -> Result<Progress, OpenError> {
    let local = local.then_some(port as _);
    let mut last = Progress::default();
    let options = Options { volume: VOLUME, config, sealing: port.sealing(), accept_damage: false };
    let progress = replay(port, port, local, options, &mut |now| last = now)?;
    assert_eq!(progress, last);
    Ok(progress)
}

/// A batch that takes a little less than a quarter of a segment, flushed.
fn put(device: &JournaledDevice, fill: u8) {
    for turn in 0..4 {
        write(device, turn * (15 << 10), &[fill; 15 << 10]).result().unwrap();
    }
    flush(device).result().unwrap();
}

#[test]
fn each_opening_raises_the_epoch_of_record_and_slots() {
    let world = World::new(SIZE, 1);
    for epoch in 1..4 {
        let device = opened(&world.take_over(), LAZY);
        assert_eq!((device.epoch(), device.ring()), (Epoch(epoch), RING));
        assert!(world.lock().epochs().all(|slot| slot == epoch));
        device.close(PATIENCE).unwrap();
    }
    world.end();
}

#[test]
fn what_was_flushed_comes_back_and_is_in_the_image_then() {
    let world = World::new(SIZE, 1);
    let port = world.take_over();
    assert!(!needs_replay(&port).unwrap(), "there is no journal");
    let device = opened(&port, LAZY);
    assert!(!needs_replay(&port).unwrap(), "nothing is in it");
    put(&device, 1);
    write(&device, 0, &[2; 512]).result().unwrap();
    drop(device);
    assert!(needs_replay(&port).unwrap());
    assert_eq!(world.lock().image[..512], [0; 512]);
    let port = world.take_over();
    let progress = replayed(&port, LAZY, false).unwrap();
    assert_eq!((progress.frames, progress.set_aside), (1, None));
    assert!(progress.frame_bytes > 60 << 10, "{progress:?}");
    assert_eq!(world.lock().image[..60 << 10], vec![1; 60 << 10]);
    assert!(world.lock().image[60 << 10..].iter().all(|byte| *byte == 0));
    assert!(!needs_replay(&port).unwrap());
    assert_eq!(replayed(&world.take_over(), LAZY, false).unwrap(), Progress::default());
    world.end();
}

#[test]
fn closed_undrained_it_leaves_the_image_as_it_was_and_loses_nothing() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    put(&device, 1);
    device.close_undrained();
    device.close_undrained();
    device.close(PATIENCE).unwrap(); // nothing is left to do
    assert!(world.lock().image.iter().all(|byte| *byte == 0));
    let again = opened(&world.take_over(), LAZY);
    assert_eq!(read(&again, 0, 60 << 10), vec![1; 60 << 10]);
    again.close(PATIENCE).unwrap();
    world.end();
}

/// The frame behind the tail may lie in the next segment.
#[test]
fn a_frame_is_found_where_it_had_to_go() {
    let world = World::new(SIZE, 1);
    let port = world.take_over();
    let device = opened(&port, LAZY);
    for turn in 0..5 {
        put(&device, turn);
        assert!(needs_replay(&port).unwrap(), "{turn}");
        if turn < 4 {
            device.quiesce(PATIENCE).unwrap();
            device.unquiesce();
            assert!(!needs_replay(&port).unwrap(), "{turn}");
        }
    }
    assert!(device.status().used_bytes > 70 << 10, "a frame and the gap before it");
    drop(device);
    assert_eq!(read(&opened(&world.take_over(), LAZY), 0, 512), [4; 512]);
    world.end();
}

#[test]
fn many_laps_and_a_ring_full_of_frames_are_replayed() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CONFIG);
    for turn in 0..40 {
        put(&device, turn);
    }
    world.hold(Kind::Change);
    for turn in 40..42 {
        put(&device, turn);
    }
    world.crash();
    drop(device);
    world.release(Kind::Change);
    assert_eq!(read(&opened(&world.take_over(), CONFIG), 0, 60 << 10), vec![41; 60 << 10]);
    world.end();
}

#[test]
fn a_journal_keeps_the_shape_it_was_made_with() {
    let world = World::new(SIZE, 1);
    opened(&world.take_over(), LAZY).close(PATIENCE).unwrap();
    let ring = Ring { segments: 2, ..RING };
    let device = opened(&world.take_over(), Config { ring, ..LAZY });
    assert_eq!(device.ring(), RING);
    assert_eq!(
        world.lock().epochs().collect::<Vec<_>>(),
        [2; 4],
        "also slots that the settings know nothing of"
    );
    world.end();
}

#[test]
fn the_volume_is_the_one_whose_journal_it_is() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    put(&device, 3);
    drop(device);
    let port = world.take_over();
    let options =
        Options { volume: VolumeId([9; 16]), config: LAZY, sealing: None, accept_damage: false };
    let (image, slots) = (Arc::new(port.clone()), Arc::new(port));
    let device = open(image, slots, None, options, &mut |_| {}).unwrap();
    assert_eq!(read(&device, 0, 512), [3; 512]);
    world.end();
}

#[test]
fn what_cannot_be_opened_is_refused_and_left_alone() {
    let world = World::new(SIZE, 1);
    let port = world.take_over();
    let options = Options { volume: VOLUME, config: CACHE, sealing: None, accept_damage: false };
    let (image, slots) = (Arc::new(port.clone()), Arc::new(port.clone()));
    let error = open(image, slots, None, options, &mut |_| {}).unwrap_err();
    assert!(matches!(error, OpenError::NoLocalLog));
    let error = try_open(&port, Config { max_appends: 0, ..CONFIG }).unwrap_err();
    assert!(matches!(error, OpenError::Config(_)));
    world.lock().record = Some(b"something else".to_vec());
    for error in [
        try_open(&port, CONFIG).unwrap_err(),
        needs_replay(&port).unwrap_err(),
        replayed(&port, CONFIG, false).unwrap_err(),
    ] {
        let broken = RecoveryError::Record(FormatError::Magic);
        assert!(matches!(error, OpenError::Recovery(found) if found == broken));
    }
    assert_eq!(world.lock().record.as_deref(), Some(b"something else".as_slice()));
    assert!(world.lock().epochs().all(|epoch| epoch == 0));
    world.end();
}

#[test]
fn a_failed_replay_frees_nothing_and_can_be_tried_again() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    put(&device, 5);
    drop(device);
    world.lock().faults.change = Some(Failure::NoSpace);
    let error = replayed(&world.take_over(), LAZY, false).unwrap_err();
    let no_space = RecoveryError::Io(Failure::NoSpace);
    assert!(matches!(error, OpenError::Recovery(found) if found == no_space), "{error:?}");
    world.lock().faults.change = None;
    let port = world.take_over();
    assert!(needs_replay(&port).unwrap());
    assert_eq!(replayed(&port, LAZY, false).unwrap().frames, 1);
    assert_eq!(world.lock().image[..512], [5; 512]);
    world.end();
}

/// Whatever the next owner's settings are: what only the host had is shipped first.
#[test]
fn what_only_the_host_had_is_shipped() {
    for next in [CACHE, CONFIG] {
        let world = World::new(SIZE, 1);
        let device = opened(&world.take_over(), CACHE);
        world.hold(Kind::Append);
        put(&device, 6);
        drop(device);
        world.lose(Kind::Append);
        world.release(Kind::Append);
        let progress = replayed(&world.take_over(), next, true).unwrap();
        assert_eq!((progress.shipped_batches, progress.set_aside), (1, None));
        assert_eq!(world.lock().image[..512], [6; 512]);
        world.end();
    }
}

/// INV-3.
#[test]
fn a_log_of_an_owner_whom_another_followed_is_set_aside() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CACHE);
    world.hold(Kind::Append);
    put(&device, 7);
    drop(device);
    world.lose(Kind::Append);
    world.release(Kind::Append);
    let elsewhere = opened(&world.take_over(), CONFIG);
    put(&elsewhere, 8);
    elsewhere.close(PATIENCE).unwrap();
    let device = opened(&world.take_over(), CACHE);
    assert_eq!(read(&device, 0, 512), [8; 512]);
    let aside = Aside::Older { epoch: Epoch(1), volume: VOLUME };
    assert_eq!(world.lock().asides, [aside]);
    world.end();
}

/// Somebody removed an object of the ring: that is no empty slot (INV-67).
#[test]
fn a_volume_whose_journal_lost_a_slot_is_refused_until_the_loss_is_accepted() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), LAZY);
    write(&device, 0, &[1; 4096]).result().unwrap();
    flush(&device).result().unwrap();
    drop(device);
    let state = world.lock();
    let before = (state.slots.clone(), state.owners.clone());
    drop(state);
    for slot in 0..4 {
        world.lock().remove_slot(slot);
        let refused = try_open(&world.take_over(), LAZY).unwrap_err();
        let OpenError::Recovery(RecoveryError::Damaged(damage)) = refused else {
            panic!("{refused:?}");
        };
        let text = format!("slot {slot:04x} of the journal is missing");
        assert!(damage.to_string().starts_with(&text), "{damage}");
        assert!(world.lock().owners[slot].is_none(), "it was not made again");
        let mut state = world.lock();
        (state.slots, state.owners) = before.clone();
    }
    world.lock().remove_slot(0);
    let port = world.take_over();
    let sealing = port.sealing();
    let options = Options { volume: VOLUME, config: LAZY, sealing, accept_damage: true };
    let given_up = replay(&port, &port, None, options, &mut |_| {}).unwrap().given_up;
    assert!(matches!(given_up, Some(Damage::Slots { slot: 0, slots: 1, .. })), "{given_up:?}");
    let device = opened(&world.take_over(), LAZY);
    assert_eq!(read(&device, 0, 4096), [0; 4096]);
    world.end();
}

/// After a rollback a journal begins at the first epoch again (INV-2).
#[test]
fn a_slot_of_an_earlier_journal_takes_nothing_of_its_owner_once_it_is_the_new_ones() {
    let world = World::new(SIZE, 1);
    let old = opened(&world.take_over(), LAZY);
    write(&old, 0, &[1; 4096]).result().unwrap();
    world.hold(Kind::Append);
    let late = flush(&old);
    drop(world.await_pending(Kind::Append, 1));
    {
        let mut state = world.lock();
        state.record = None;
        for slot in 0..4 {
            state.remove_slot(slot);
        }
    }
    let port = world.take_over();
    let (volume, sealing) = (VolumeId([9; 16]), port.sealing());
    let options = Options { volume, config: LAZY, sealing, accept_damage: false };
    replay(&port, &port, None, options, &mut |_| {}).unwrap();
    assert!(world.lock().epochs().all(|epoch| epoch == 1), "as the old owner's");
    world.release(Kind::Append);
    assert!(matches!(late.result(), Err(DeviceError::Fenced)));
    assert!(world.lock().slots.iter().all(Vec::is_empty), "nothing landed");
    world.end();
}

/// The log on the host alone has what was acknowledged while the cluster was slow (INV-67).
#[test]
fn a_log_on_the_host_that_lost_what_was_acknowledged_is_damaged_and_not_short() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CACHE);
    world.hold(Kind::Append);
    for turn in 0..4 {
        write(&device, turn * 4096, &[1; 4096]).result().unwrap();
        flush(&device).result().unwrap();
    }
    drop(device);
    world.lose(Kind::Append);
    world.release(Kind::Append);
    let second = 4096 + 512; // as long as the first frame is
    world.lock().rot_log(second + 100);
    let refused = try_open(&world.take_over(), CACHE).unwrap_err();
    let gap = |damage| matches!(damage, Damage::Gap { log: Log::Local, missing: 2, .. });
    assert!(
        matches!(refused, OpenError::Recovery(RecoveryError::Damaged(damage)) if gap(damage)),
        "{refused:?}"
    );
    // Repaired, it has everything.
    world.lock().rot_log(second + 100);
    let device = opened(&world.take_over(), CACHE);
    assert_eq!(read(&device, 0, 4 * 4096), [1; 4 * 4096]);
    world.end();
}
