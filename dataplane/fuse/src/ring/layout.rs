//! Which thread serves which queues, with how many entries. Pure.

/// What the payloads of all entries may take together. They take what they have touched.
const BUDGET_BYTES: u64 = 1 << 30;
/// A queue that gets requests has this many entries at least, whatever the budget.
const FEWEST_ENTRIES: u16 = 4;

/// A queue of the kernel, and how many requests it holds at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuePlan {
    pub(crate) queue: u16,
    pub(crate) entries: u16,
}

/// A thread, the CPU that it belongs to, and its queues: its CPU's own is the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThreadPlan {
    pub(crate) cpu: u16,
    pub(crate) queues: Vec<QueuePlan>,
}

/// Give each CPU that is online a thread for its queue.
///
/// The kernel uses no ring before each *possible* CPU's queue has an entry. A CPU that is offline
/// sends nothing, so its queue has one entry and stands with another CPU's thread: slow if that CPU
/// comes online later, and right.
pub(crate) fn decide_layout(
    possible: &[u16],
    online: &[u16],
    ring_entries: u16,
    transfer_bytes: u32,
) -> Vec<ThreadPlan> {
    let served = |cpu: &&u16| online.contains(cpu);
    let mut threads: Vec<ThreadPlan> = possible
        .iter()
        .filter(served)
        .map(|cpu| ThreadPlan { cpu: *cpu, queues: Vec::new() })
        .collect();
    let count = u64::try_from(threads.len()).unwrap_or(u64::MAX).max(1);
    let affordable = BUDGET_BYTES / count / u64::from(transfer_bytes.max(1));
    let affordable = u16::try_from(affordable).unwrap_or(u16::MAX).max(FEWEST_ENTRIES);
    let entries = ring_entries.min(affordable);
    for thread in &mut threads {
        thread.queues.push(QueuePlan { queue: thread.cpu, entries });
    }
    let idle = possible.iter().filter(|cpu| !served(cpu));
    for (position, cpu) in idle.enumerate() {
        let index = position % threads.len().max(1);
        if let Some(thread) = threads.get_mut(index) {
            thread.queues.push(QueuePlan { queue: *cpu, entries: 1 });
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
    fn each_cpu_online_has_a_thread_and_each_possible_one_a_queue() {
        let threads = decide_layout(&[0, 1, 2, 3, 4], &[0, 2], 32, 1 << 20);
        let expected = [
            ThreadPlan { cpu: 0, queues: plan(&[(0, 32), (1, 1), (4, 1)]) },
            ThreadPlan { cpu: 2, queues: plan(&[(2, 32), (3, 1)]) },
        ];
        assert_eq!(threads, expected);
    }

    #[test]
    fn many_cpus_share_the_memory() {
        for (cpus, asked, entries) in
            [(1, 1024, 1024), (2, 32, 32), (64, 32, 16), (256, 32, 4), (4096, 32, 4), (4096, 2, 2)]
        {
            let all: Vec<u16> = (0..cpus).collect();
            let threads = decide_layout(&all, &all, asked, 1 << 20);
            assert_eq!(threads.len(), usize::from(cpus));
            assert!(threads.iter().all(|thread| thread.queues == plan(&[(thread.cpu, entries)])));
        }
        assert!(decide_layout(&[], &[], 32, 1 << 20).is_empty());
    }
}
