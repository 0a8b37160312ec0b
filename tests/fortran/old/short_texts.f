! ranks: 1
! CHARACTERs that are shorter or longer than the texts, with mpif.h.
      program strings
      implicit none
      include 'mpif.h'
      integer ierr, n, info, i, comm, dt
      logical flag
      character*4 short
      character guard(8)
      character*8 both
      character*300 long
      equivalence (guard, both)
      call MPI_INIT(ierr)
      both = '########'
      call MPI_ERROR_STRING(MPI_ERR_TRUNCATE, both(1:4), n, ierr)
      if (both(5:8) .ne. '####') stop 1
      if (n .gt. 4 .and. both(1:4) .eq. '    ') stop 11
      both = '########'
      call MPI_GET_PROCESSOR_NAME(both(1:4), n, ierr)
      if (both(5:8) .ne. '####') stop 2
      call MPI_GET_LIBRARY_VERSION(both(1:4), n, ierr)
      if (both(5:8) .ne. '####') stop 3
      call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
      call MPI_COMM_SET_NAME(comm, ' a long name   ', ierr)
      both = '########'
      call MPI_COMM_GET_NAME(comm, both(1:4), n, ierr)
      if (both(5:8) .ne. '####' .or. both(1:4) .ne. ' a l') stop 4
      long = 'x'
      call MPI_COMM_GET_NAME(comm, long, n, ierr)
      if (long .ne. ' a long name' .or. n .ne. 12) stop 5
      call MPI_INFO_CREATE(info, ierr)
      call MPI_INFO_SET(info, ' key ', ' the value ', ierr)
      both = '########'
      call MPI_INFO_GET(info, 'key', 4, both(1:4), flag, ierr)
      if (.not. flag .or. both .ne. 'the ####') then
        print *, '[', both, ']'
        stop 6
      end if
      both = '########'
      call MPI_INFO_GET(info, 'key  ', 3, both, flag, ierr)
      if (.not. flag .or. both .ne. 'the     ') stop 7
      n = 3
      both = '########'
      call MPI_INFO_GET_STRING(info, 'key', n, both, flag, ierr)
      if (.not. flag .or. both .ne. 'the     ' .or. n .ne. 9) then
        print *, '[', both, ']', n
        stop 8
      end if
      call MPI_INFO_GET_VALUELEN(info, 'key', n, flag, ierr)
      if (.not. flag .or. n .ne. 9) stop 9
      both = '########'
      call MPI_INFO_GET_NTHKEY(info, 0, both(1:2), ierr)
      if (both .ne. 'ke######') stop 10
      call MPI_INFO_FREE(info, ierr)
      dt = MPI_INTEGER
      long = 'y'
      call MPI_TYPE_GET_NAME(dt, long, n, ierr)
      if (long .ne. 'MPI_INTEGER') stop 12
      call MPI_COMM_FREE(comm, ierr)
      call MPI_FINALIZE(ierr)
      print '(a)', 'ok'
      end
