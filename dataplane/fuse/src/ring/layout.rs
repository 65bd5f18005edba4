//! Which thread serves which queues, with how many entries. Pure.

/// What the payloads of all entries may take together. They take what they have touched, and what
/// was not needed for a while is given back.
const BUDGET_BYTES: u64 = 1 << 30;
/// A queue that gets requests has this many entries at least, whatever the budget.
const FEWEST_ENTRIES: u16 = 4;
/// Threads on a machine of any size: a host serves hundreds of volumes, and one thread passes on
/// more requests than a cluster answers for one volume.
const MOST_THREADS: usize = 2;

/// A queue of the kernel, and how many requests it holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePlan {
    pub(crate) queue: u16,
    pub(crate) entries: u16,
}

/// A thread, the CPUs that it belongs to, and its queues: those of its CPUs are the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadPlan {
    pub(crate) cpus: Vec<u16>,
    pub(crate) queues: Vec<QueuePlan>,
}

/// Share the CPUs that are online, neighbours together, between few threads.
///
/// The kernel uses no ring before each *possible* CPU's queue has an entry. A CPU that is offline
/// sends nothing, so its queue has one entry and goes to any thread: slow if that CPU comes online
/// later, and right.
pub(crate) fn decide_layout(
    possible: &[u16],
    online: &[u16],
    ring_entries: u16,
    transfer_bytes: u32,
) -> Vec<ThreadPlan> {
    let (served, idle): (Vec<u16>, Vec<u16>) =
        possible.iter().copied().partition(|cpu| online.contains(cpu));
    let count = u64::try_from(served.len()).unwrap_or(u64::MAX).max(1);
    let affordable = BUDGET_BYTES / count / u64::from(transfer_bytes.max(1));
    let affordable = u16::try_from(affordable).unwrap_or(u16::MAX).max(FEWEST_ENTRIES);
    let entries = ring_entries.min(affordable);
    let share = served.len().div_ceil(MOST_THREADS).max(1);
    let mut threads: Vec<ThreadPlan> = served
        .chunks(share)
        .map(|cpus| ThreadPlan {
            cpus: cpus.to_vec(),
            queues: cpus.iter().map(|cpu| QueuePlan { queue: *cpu, entries }).collect(),
        })
        .collect();
    let count = threads.len().max(1);
    for (position, cpu) in idle.into_iter().enumerate() {
        if let Some(thread) = threads.get_mut(position % count) {
            thread.queues.push(QueuePlan { queue: cpu, entries: 1 });
        }
    }
    threads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(queues: &[(u16, u16)]) -> Vec<QueuePlan> {
        queues
            .iter()
            .map(|(queue, entries)| QueuePlan { queue: *queue, entries: *entries })
            .collect()
    }

    #[test]
    fn each_possible_cpu_has_a_queue_and_those_online_have_threads_of_their_own() {
        let threads = decide_layout(&[0, 1, 2, 3, 4], &[0, 2], 32, 1 << 20);
        let expected = [
            ThreadPlan { cpus: vec![0], queues: plan(&[(0, 32), (1, 1), (4, 1)]) },
            ThreadPlan { cpus: vec![2], queues: plan(&[(2, 32), (3, 1)]) },
        ];
        assert_eq!(threads, expected);
    }

    #[test]
    fn many_cpus_share_few_threads_and_the_memory() {
        for (cpus, asked, entries, threads) in [
            (1, 1024, 1024, 1),
            (2, 32, 32, 2),
            (3, 32, 32, 2),
            (64, 32, 16, 2),
            (256, 32, 4, 2),
            (4096, 32, 4, 2),
            (4096, 2, 2, 2),
        ] {
            let all: Vec<u16> = (0..cpus).collect();
            let plans = decide_layout(&all, &all, asked, 1 << 20);
            assert_eq!(plans.len(), threads, "{cpus}");
            let of_threads: Vec<u16> = plans.iter().flat_map(|plan| plan.cpus.clone()).collect();
            assert_eq!(of_threads, all, "neighbours are together");
            let queues: Vec<_> = plans.into_iter().flat_map(|plan| plan.queues).collect();
            let expected: Vec<_> = all.iter().map(|cpu| (*cpu, entries)).collect();
            assert_eq!(queues, plan(&expected));
        }
        assert!(decide_layout(&[], &[], 32, 1 << 20).is_empty());
    }
}
