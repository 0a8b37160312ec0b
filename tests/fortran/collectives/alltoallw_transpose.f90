! ranks: 1 2 4
! A distributed matrix changes from columns to rows by subarray types.
program redistribute
  use mpi_f08
  implicit none
  integer :: me, np, n, m, r, i, j, first
  type(MPI_Datatype), allocatable :: out_types(:), in_types(:)
  integer, allocatable :: columns(:,:), rows(:,:), ones(:), zeros(:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  m = 2
  n = m * np
  allocate (columns(n, m), rows(m, n), out_types(np), in_types(np), ones(np), zeros(np))
  columns = reshape([((100 * i + me * m + j, i=1, n), j=1, m)], [n, m])
  rows = 0
  ones = 1
  zeros = 0
  do r = 0, np - 1
    call MPI_Type_create_subarray(2, [n, m], [m, m], [r * m, 0], MPI_ORDER_FORTRAN, MPI_INTEGER, &
                                  out_types(r+1))
    call MPI_Type_create_subarray(2, [m, n], [m, m], [0, r * m], MPI_ORDER_FORTRAN, MPI_INTEGER, &
                                  in_types(r+1))
    call MPI_Type_commit(out_types(r+1))
    call MPI_Type_commit(in_types(r+1))
  end do
  call MPI_Alltoallw(columns, ones, zeros, out_types, rows, ones, zeros, in_types, MPI_COMM_WORLD)
  first = me * m
  if (any(rows /= reshape([((100 * (first + i) + j, i=1, m), j=1, n)], [m, n]))) &
    error stop 'the rows'
  do r = 1, np
    call MPI_Type_free(out_types(r))
    call MPI_Type_free(in_types(r))
  end do
  if (any(in_types /= MPI_DATATYPE_NULL)) error stop 'the freed types'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
