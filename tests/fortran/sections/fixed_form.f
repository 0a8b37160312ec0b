! ranks: 1 2
! Sections with mpi_f08 in fixed form, over continuation lines.
      PROGRAM FIXSEC
      USE MPI_F08
      IMPLICIT NONE
      INTEGER ME, NP, I
      REAL A(20), B(20)
      TYPE(MPI_REQUEST) R(2)
      CALL MPI_INIT()
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP)
      A = [(ME + I*0.5, I=1, 20)]
      B = -1
      CALL MPI_IRECV(B(2:20:3), 7, MPI_REAL, MODULO(ME-1, NP), 4,
     &               MPI_COMM_WORLD, R(1))
      CALL MPI_ISEND(A(19:1:
     &   -3), 7, MPI_REAL, MODULO(ME+1, NP), 4, MPI_COMM_WORLD, R(2))
      CALL MPI_WAITALL(2, R, MPI_STATUSES_IGNORE)
      CALL MPI_F_SYNC_REG(B)
      IF (ANY(B(2:20:3) .NE. [(MODULO(ME-1, NP) + I*0.5, I=19, 1, -3)]))
     &   ERROR STOP 'the numbers'
      IF (COUNT(B .EQ. -1) .NE. 13) ERROR STOP 'the gaps'
      CALL MPI_FINALIZE()
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
