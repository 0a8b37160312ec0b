//! Permission for other processes to read this process's memory under Yama.
//!
//! Yama, a security module that most distributions enable (`/proc/sys/kernel/yama/ptrace_scope` is
//! 1), lets a process read only the memory of its descendants (process_vm_readv(2) needs the rights
//! of ptrace(2)). Ranks are siblings. PR_SET_PTRACER permits one other process and all its
//! descendants to read: each rank names the process that has started all ranks of the node.

/// Permits a process and its descendants to read the caller's memory, instead of an earlier one.
///
/// The call fails without effect on a kernel without Yama, which needs no permission, and if the
/// process does not exist. Only a read shows whether reading works
/// ([`crate::single_copy::RemoteProcess::probe`]).
pub fn let_descendants_read(pid: u32) {
    // SAFETY: the call takes only numbers, and changes which processes may trace this one.
    let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(pid), 0, 0, 0) };
}

/// Permits all processes of the same user to read the caller's memory, as on a kernel without Yama:
/// for ranks whose common ancestor is another launcher, of which they cannot know the process.
pub fn let_all_read() {
    // SAFETY: as above.
    let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_this_process_nor_one_that_is_not_there_is_an_error() {
        let_descendants_read(std::process::id());
        let_descendants_read(u32::MAX >> 1);
    }
}
