! ranks: 1 2
! A program without declarations: the names of mpif.h have their types all the same.
      program implic
      include 'mpif.h'
      dimension x(5), y(5), istat(mpi_status_size)
      call mpi_init(ierr)
      call mpi_comm_rank(mpi_comm_world, me, ierr)
      call mpi_comm_size(mpi_comm_world, np, ierr)
      t = mpi_wtime()
      do 10 i = 1, 5
   10 x(i) = me + i*0.5
      next = mod(me+1, np)
      last = mod(me+np-1, np)
      call mpi_sendrecv(x, 5, mpi_real, next, 7, y, 5, mpi_real, last,
     1                  7, mpi_comm_world, istat, ierr)
      do 20 i = 1, 5
      if (y(i) .ne. last + i*0.5) stop 1
   20 continue
      if (istat(mpi_source) .ne. last) stop 2
      call mpi_reduce(x, y, 5, mpi_real, mpi_max, 0, mpi_comm_world,
     1                ierr)
      if (me .eq. 0 .and. y(5) .ne. np + 1.5) stop 3
      call mpi_finalize(ierr)
      if (me .eq. 0) print '(a)', 'ok'
      end
