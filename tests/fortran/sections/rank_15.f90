! ranks: 1
! An array with 15 dimensions, and a section of it.
program rank_15
  use mpi_f08
  implicit none
  integer(1), target :: a(2,2,2,2,2,2,2,2,2,2,2,2,2,2,2)
  integer(1) :: b(2**14)
  integer :: i, place, digits(15)
  call MPI_Init()
  do i = 1, 2**15
    call set(a, i, int(mod(i * 7, 101), 1))
  end do
  call MPI_Sendrecv(a(:,:,:,2:1:-1,:,:,:,:,:,:,1,:,:,:,:), 2**14, MPI_INTEGER1, 0, 1, &
                    b, 2**14, MPI_INTEGER1, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  do i = 1, 2**14
    ! The fourth index is turned round, and the eleventh is left out.
    digits = digits_of(i - 1)
    digits(12:) = digits(11:14)
    digits(4) = 1 - digits(4)
    digits(11) = 0
    place = 1 + sum(digits * [(2**place, place=0, 14)])
    if (b(i) /= mod(place * 7, 101)) error stop 'the section'
  end do
  a = 0
  call MPI_Sendrecv(b, 2**14, MPI_INTEGER1, 0, 2, a(2,:,:,:,:,:,:,:,:,:,:,:,:,:,:), 2**14, &
                    MPI_INTEGER1, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call compare(a)
  call MPI_Finalize()
  print '(a)', 'ok'
contains
  pure function digits_of(number) result(digits)
    integer, intent(in) :: number
    integer :: digits(15), k
    digits = [(ibits(number, k, 1), k=0, 14)]
  end function
  subroutine set(flat, at, value)
    integer(1), intent(inout) :: flat(*)
    integer, intent(in) :: at
    integer(1), intent(in) :: value
    flat(at) = value
  end subroutine
  subroutine compare(pairs)
    integer(1), intent(in) :: pairs(2,*)
    integer :: k
    do k = 1, 2**14
      if (pairs(1,k) /= 0 .or. pairs(2,k) /= b(k)) error stop 'into a section'
    end do
  end subroutine
end program
