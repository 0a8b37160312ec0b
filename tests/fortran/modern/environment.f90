! ranks: 1 2
! What a program asks of the library: versions, names, clocks and states.
program environment
  use mpi
  implicit none
  integer :: ierr, version, subversion, length, level, me
  logical :: flag
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: text
  double precision :: start
  call MPI_Initialized(flag, ierr)
  if (flag) error stop 'initialized before MPI_Init'
  call MPI_Get_version(version, subversion, ierr)
  if (version /= MPI_VERSION .or. subversion /= MPI_SUBVERSION) error stop 'the version'
  call MPI_Get_library_version(text, length, ierr)
  if (len_trim(text) /= length .or. length < 5) error stop 'the version of the library'
  call MPI_Init_thread(MPI_THREAD_FUNNELED, level, ierr)
  if (level < MPI_THREAD_FUNNELED) error stop 'the level of threads'
  call MPI_Query_thread(version, ierr)
  if (version /= level) error stop 'the level that the library says'
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Get_processor_name(name, length, ierr)
  if (length < 1 .or. len_trim(name) /= length) error stop 'the name of the host'
  start = MPI_Wtime()
  do while (MPI_Wtime() - start < 10 * MPI_Wtick())
  end do
  call MPI_Finalized(flag, ierr)
  if (flag) error stop 'finalized too early'
  call MPI_Finalize(ierr)
  call MPI_Finalized(flag, ierr)
  if (.not. flag) error stop 'finalized'
  call MPI_Initialized(flag, ierr)
  if (.not. flag) error stop 'initialized'
  if (me == 0) print '(a)', 'ok'
end program
