! ranks: 1 2
! Two sessions without MPI_Init, each with its communicator.
program sessions
  use mpi_f08
  implicit none
  type(MPI_Session) :: first, second
  type(MPI_Group) :: group
  type(MPI_Comm) :: comm, other
  type(MPI_Info) :: info
  integer :: me, np, n, i, length, total
  character(len=MPI_MAX_PSET_NAME_LEN) :: name
  character(len=20) :: value
  logical :: found
  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, first)
  call MPI_Session_get_num_psets(first, MPI_INFO_NULL, n)
  found = .false.
  do i = 0, n - 1
    length = len(name)
    call MPI_Session_get_nth_pset(first, MPI_INFO_NULL, i, length, name)
    if (name == 'mpi://WORLD') found = .true.
  end do
  if (.not. found) error stop 'the set of all processes'
  call MPI_Session_get_pset_info(first, 'mpi://WORLD', info)
  length = len(value)
  call MPI_Info_get_string(info, 'mpi_size', length, value, found)
  if (.not. found) error stop 'the size of the set'
  read (value, *) np
  call MPI_Info_free(info)
  call MPI_Group_from_session_pset(first, 'mpi://WORLD', group)
  call MPI_Comm_create_from_group(group, 'tests of sessions', MPI_INFO_NULL, &
                                  MPI_ERRORS_ARE_FATAL, comm)
  call MPI_Group_free(group)
  call MPI_Comm_rank(comm, me)
  call MPI_Comm_size(comm, n)
  if (n /= np) error stop 'the size of the communicator'
  call MPI_Allreduce(me + 1, total, 1, MPI_INTEGER, MPI_SUM, comm)
  if (total /= np * (np + 1) / 2) error stop 'the sum'
  call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, second)
  if (second == first) error stop 'one handle for two sessions'
  call MPI_Group_from_session_pset(second, 'mpi://SELF', group)
  call MPI_Comm_create_from_group(group, 'of one', MPI_INFO_NULL, MPI_ERRORS_RETURN, other)
  call MPI_Comm_size(other, n)
  if (n /= 1) error stop 'the communicator of one'
  call MPI_Comm_free(other)
  call MPI_Comm_free(comm)
  call MPI_Session_finalize(second)
  call MPI_Session_finalize(first)
  if (first /= MPI_SESSION_NULL) error stop 'the handle'
  if (me == 0) print '(a)', 'ok'
end program
