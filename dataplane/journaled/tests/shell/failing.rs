//! Fences, full pools, failures: everyone is answered, and nothing is called durable that is not.

use std::time::Duration;

use grampus_blockdev::{BlockDevice, DeviceError, Durability};
use grampus_journal::{CacheConfig, Config, Failure, State, Status};
use grampus_journaled::{JournaledDevice, QuiesceError};

use crate::user::{
    CACHE, CONFIG, LAZY, Pending, await_status, flush, opened, read, reading, submit, write,
    writing,
};
use crate::world::{Faults, Kind, PATIENCE, World};

const SIZE: usize = 1 << 20;

fn is_no_space(result: &Result<(), DeviceError>) -> bool {
    matches!(result, Err(DeviceError::Io { source, .. })
        if source.kind() == std::io::ErrorKind::StorageFull)
}

/// Write as much as the journal has memory for, while it can free none, and some more; those.
fn fill(device: &JournaledDevice, more: usize) -> Vec<Pending> {
    for turn in 0..16 {
        drop(write(device, turn * (16 << 10), &[1; 16 << 10]));
    }
    (0..more).map(|_| write(device, 0, &[2; 16 << 10])).collect()
}

#[test]
fn after_a_takeover_nothing_of_the_old_owner_lands_and_it_learns_so() {
    let world = World::new(SIZE, 1);
    let old = opened(&world.take_over(), LAZY);
    write(&old, 0, &[1; 4096]).result().unwrap();
    flush(&old).result().unwrap();
    world.hold(Kind::Append);
    write(&old, 4096, &[2; 4096]).result().unwrap();
    let late = flush(&old);
    drop(world.await_pending(Kind::Append, 1));
    let new = opened(&world.take_over(), LAZY);
    let (slots, image) = {
        let state = world.lock();
        (state.slots.clone(), state.image.clone())
    };
    world.release(Kind::Append);
    assert!(matches!(late.result(), Err(DeviceError::Fenced)));
    assert_eq!(old.status().state, State::Failed(Failure::Fenced));
    for result in [
        write(&old, 0, &[3; 512]).result(),
        submit(&old, writing(0, &[3; 512], Durability::Fua)).result(),
        flush(&old).result(),
        reading(&old, 0, 512).result(),
    ] {
        assert!(matches!(result, Err(DeviceError::Fenced)), "{result:?}");
    }
    assert_eq!(old.quiesce(PATIENCE), Err(QuiesceError::Failed(Failure::Fenced)));
    assert_eq!(old.close(PATIENCE), Err(QuiesceError::Failed(Failure::Fenced)));
    assert_eq!(world.lock().slots, slots, "nothing landed");
    assert_eq!(world.lock().image, image);
    assert_eq!(read(&new, 0, 8192), [[1; 4096], [0; 4096]].concat());
    write(&new, 0, &[4; 512]).result().unwrap();
    flush(&new).result().unwrap();
    world.end();
}

/// Also one that has nothing to append: its record is not the one there any more.
#[test]
fn an_old_owner_that_trims_learns_of_the_takeover() {
    let world = World::new(SIZE, 1);
    let old = opened(&world.take_over(), CONFIG);
    world.hold(Kind::Record);
    write(&old, 0, &[1; 4096]).result().unwrap();
    flush(&old).result().unwrap();
    drop(world.await_pending(Kind::Record, 1));
    let new = opened(&world.take_over(), CONFIG);
    let record = world.lock().record.clone();
    world.step(Kind::Record);
    assert_eq!(old.status().state, State::Failed(Failure::Fenced));
    assert_eq!(world.lock().record, record);
    assert_eq!(read(&new, 0, 4096), [1; 4096]);
    world.release(Kind::Record);
    new.close(PATIENCE).unwrap();
    world.end();
}

#[test]
fn a_fence_noticed_elsewhere_ends_everything_at_once() {
    let world = World::new(SIZE, 1);
    world.hold(Kind::Append);
    let device = opened(&world.take_over(), LAZY);
    let mut waiting = fill(&device, 3);
    waiting.push(flush(&device));
    waiting.push(submit(&device, writing(0, &[1; 512], Durability::Fua)));
    device.fenced();
    for pending in waiting {
        assert!(matches!(pending.result(), Err(DeviceError::Fenced)));
    }
    assert!(matches!(reading(&device, 0, 512).result(), Err(DeviceError::Fenced)));
    world.end();
}

#[test]
fn a_full_pool_is_waited_for_and_works_again() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CONFIG);
    for faults in [
        Faults { append: Some(Failure::NoSpace), ..Faults::default() },
        Faults { change: Some(Failure::NoSpace), ..Faults::default() },
        Faults { change: Some(Failure::Io), ..Faults::default() },
        Faults { record: Some(Failure::NoSpace), ..Faults::default() },
    ] {
        world.lock().faults = faults;
        write(&device, 0, &[1; 4096]).result().unwrap();
        let flushed = flush(&device);
        await_status(&device, "a retry", |status| status.retrying.is_some());
        assert_eq!(read(&device, 0, 4096), [1; 4096]);
        world.lock().faults = Faults::default();
        flushed.result().unwrap();
        device.quiesce(PATIENCE).unwrap();
        device.unquiesce();
        assert_eq!(device.status().retrying, None, "{faults:?}");
    }
    device.close(PATIENCE).unwrap();
    world.end();
}

#[test]
fn a_pool_that_stays_full_fails_the_flush_and_all_that_follows() {
    let world = World::new(SIZE, 1);
    let config = Config { refuse_after: Duration::from_millis(50), ..LAZY };
    let device = opened(&world.take_over(), config);
    world.lock().faults.append = Some(Failure::NoSpace);
    write(&device, 0, &[1; 4096]).result().unwrap();
    let result = flush(&device).result();
    assert!(is_no_space(&result), "{result:?}");
    world.lock().faults = Faults::default();
    for result in [
        write(&device, 0, &[3; 512]).result(),
        flush(&device).result(),
        reading(&device, 0, 512).result(),
    ] {
        assert!(matches!(result, Err(DeviceError::Failed)), "{result:?}");
    }
    world.end();
}

/// INV-5: want of space that lasts is an error.
#[test]
fn a_full_journal_above_a_full_pool_refuses_and_takes_again_when_there_is_room() {
    let world = World::new(SIZE, 1);
    world.lock().faults.change = Some(Failure::NoSpace);
    let config = Config { refuse_after: Duration::from_millis(30), ..CONFIG };
    let device = opened(&world.take_over(), config);
    for pending in fill(&device, 3) {
        let result = pending.result();
        assert!(is_no_space(&result), "{result:?}");
    }
    assert_eq!(device.parked(), 0);
    assert_eq!(read(&device, 0, 512).len(), 512);
    world.lock().faults = Faults::default();
    device.quiesce(PATIENCE).unwrap();
    device.unquiesce();
    write(&device, 0, &[9; 512]).result().unwrap();
    flush(&device).result().unwrap();
    device.close(PATIENCE).unwrap();
    assert_eq!(world.lock().image[..512], [9; 512]);
    world.end();
}

/// Of the cluster, that is: the log on the host takes what it can meanwhile (INV-68).
#[test]
fn silence_is_waited_out_and_ends_no_request() {
    for config in [CONFIG, CACHE] {
        let world = World::new(SIZE, 1);
        let kinds = [Kind::Append, Kind::Record, Kind::Change, Kind::Flush];
        let config = Config { refuse_after: Duration::from_millis(5), ..config };
        let device = opened(&world.take_over(), config);
        for kind in kinds {
            world.hold(kind);
        }
        let waiting = fill(&device, 3);
        let flushed = flush(&device);
        let silent = |status: &Status| status.silent > Some(Duration::from_millis(100));
        await_status(&device, "a long silence", silent);
        let status = device.status();
        assert_eq!((status.state, status.retrying), (State::Running, None));
        assert!(status.held_bytes <= config.max_held_bytes, "{status:?}");
        assert!(device.parked() > 0, "memory is bounded: the rest waits outside");
        assert!(!waiting.iter().any(Pending::is_answered), "nobody was told of a failure");
        assert_eq!(read(&device, 0, 512).len(), 512);
        for kind in kinds {
            world.release(kind);
        }
        for pending in waiting {
            pending.result().unwrap();
        }
        flushed.result().unwrap();
        device.close(PATIENCE).unwrap();
        world.end();
    }
}

/// What somebody does who cannot wait: it takes no longer than he says.
#[test]
fn a_stop_and_a_fence_end_also_while_the_cluster_is_silent() {
    for fenced in [false, true] {
        let world = World::new(SIZE, 1);
        let device = opened(&world.take_over(), CONFIG);
        let kinds = [Kind::Append, Kind::Record, Kind::Change, Kind::Flush];
        for kind in kinds {
            world.hold(kind);
        }
        let waiting = fill(&device, 3);
        if fenced {
            device.fenced();
        } else {
            let after = Duration::from_millis(50);
            assert_eq!(device.close(after), Err(QuiesceError::TimedOut { after }));
        }
        for pending in waiting {
            let error = pending.result().unwrap_err();
            assert!(matches!(error, DeviceError::Fenced | DeviceError::Abandoned), "{error:?}");
        }
        world.end();
    }
}

#[test]
fn changes_that_wait_for_room_are_answered_when_the_journal_fails() {
    let world = World::new(SIZE, 1);
    world.hold(Kind::Change);
    let device = opened(&world.take_over(), CONFIG);
    let waiting = fill(&device, 5);
    world.lock().faults.append = Some(Failure::Io);
    world.hold(Kind::Append);
    let flushed = flush(&device);
    world.release(Kind::Append);
    drop(flushed.result());
    // The batch that waits may have been sealed before: the next one fails then.
    device.fenced();
    for pending in waiting {
        assert!(matches!(pending.result(), Err(DeviceError::Failed | DeviceError::Fenced)));
    }
    assert_eq!(device.parked(), 0);
    world.end();
}

#[test]
fn a_failed_append_or_flush_of_the_image_fails_for_good() {
    for faults in [
        Faults { append: Some(Failure::Io), ..Faults::default() },
        Faults { flush: Some(Failure::Io), ..Faults::default() },
        Faults { record: Some(Failure::Io), ..Faults::default() },
    ] {
        let world = World::new(SIZE, 1);
        let device = opened(&world.take_over(), CONFIG);
        write(&device, 0, &[1; 512]).result().unwrap();
        world.lock().faults = faults;
        let flushed = flush(&device).result();
        assert_eq!(flushed.is_err(), faults.append.is_some(), "{flushed:?}");
        await_status(&device, "its failure", |status| status.state == State::Failed(Failure::Io));
        assert!(matches!(flush(&device).result(), Err(DeviceError::Failed)));
        drop(device);
        world.lock().faults = Faults::default();
        let again = opened(&world.take_over(), CONFIG);
        let kept = if faults.append.is_some() { [0; 512] } else { [1; 512] };
        assert_eq!(read(&again, 0, 512), kept);
        world.end();
    }
}

#[test]
fn a_call_that_gets_lost_fails_those_who_wait_for_it() {
    for kind in [Kind::Append, Kind::Flush, Kind::Record] {
        let world = World::new(SIZE, 1);
        let device = opened(&world.take_over(), CONFIG);
        world.hold(kind);
        write(&device, 0, &[1; 512]).result().unwrap();
        let flushed = flush(&device);
        drop(world.await_pending(kind, 1));
        world.lose(kind);
        assert_eq!(flushed.result().is_err(), kind == Kind::Append);
        assert_eq!(device.status().state, State::Failed(Failure::Io), "{kind:?}");
        world.end();
    }
}

#[test]
fn a_cache_without_its_disk_goes_on_as_a_journal() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CACHE);
    write(&device, 0, &[1; 512]).result().unwrap();
    flush(&device).result().unwrap();
    assert!(device.status().local);
    world.lock().faults.local = Some(Failure::NoSpace);
    write(&device, 512, &[2; 512]).result().unwrap();
    flush(&device).result().unwrap();
    // The cluster may have answered first.
    await_status(&device, "its disk given up", |status| status.degraded.is_some());
    let status = device.status();
    assert_eq!((status.local, status.degraded), (false, Some(Failure::NoSpace)));
    assert_eq!((status.replicated, status.state), (status.closed, State::Running));
    device.close(PATIENCE).unwrap();
    assert_eq!(world.lock().image[..1024], [[1; 512], [2; 512]].concat());
    world.end();
}

#[test]
fn a_cache_whose_disk_hangs_goes_on_as_a_journal_and_can_be_closed() {
    let world = World::new(SIZE, 1);
    let give_up_after = Duration::from_millis(20);
    let cache = CACHE.cache.map(|cache| CacheConfig { give_up_after, ..cache });
    let device = opened(&world.take_over(), Config { cache, ..CACHE });
    world.lock().faults.local_hangs = true;
    write(&device, 0, &[1; 512]).result().unwrap();
    flush(&device).result().unwrap();
    await_status(&device, "its disk given up", |status| status.degraded.is_some());
    assert_eq!(device.status().degraded, Some(Failure::TimedOut));
    write(&device, 512, &[2; 512]).result().unwrap();
    flush(&device).result().unwrap();
    device.close(PATIENCE).unwrap();
    assert_eq!(world.lock().image[..1024], [[1; 512], [2; 512]].concat());
    world.end();
}

#[test]
fn a_cache_flushes_without_the_cluster() {
    let world = World::new(SIZE, 1);
    let device = opened(&world.take_over(), CACHE);
    world.hold(Kind::Append);
    for turn in 0..20 {
        write(&device, 512 * turn, &[1; 512]).result().unwrap();
        flush(&device).result().unwrap();
    }
    assert!(device.status().lag_bytes > 0);
    world.release(Kind::Append);
    device.close(PATIENCE).unwrap();
    assert_eq!(device.geometry().size_bytes(), u64::try_from(SIZE).unwrap());
    world.end();
}
